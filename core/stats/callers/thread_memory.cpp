// See thread_memory.hpp.
#include "core/stats/callers/thread_memory.hpp"

#include <array>

#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {

thread_memory* memory_of_this_thread() noexcept {
  static constinit std::array<thread_memory, 128> all{};
  page const* const now = current_page();
  shard& mine = local();
  std::size_t const number = now != nullptr ? shard_number(*now, mine) : max_shards;
  if (number >= all.size()) return nullptr;
  thread_memory& found = all[number];
  std::uint64_t const owner = get(mine.owner);
  if (found.owner != owner) {
    found = {};
    found.owner = owner;
  }
  return &found;
}

}  // namespace gpumem::stats
