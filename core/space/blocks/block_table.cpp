// See block_table.hpp.
#include "core/space/blocks/block_table.hpp"

#include <algorithm>
#include <mutex>

#include "core/base/threads/thread_identity.hpp"

namespace gpumem::space {

// 3 GiB of addresses, or what may be taken of those that `ulimit -v` leaves.
block_table::block_table() noexcept
    : pages_(most, sizeof(block)),
      blocks_(static_cast<block*>(pages_.begin())),
      capacity_(pages_.capacity()),
      window_(static_cast<handle>(std::clamp<std::uint64_t>(capacity_, apart, window))) {}

void block_table::make_first_pages() noexcept {
  if (!pages_.open(window_)) return;
  pages_.prepare(none);
  blocks_[none].now.store(state::unused, std::memory_order_relaxed);
}

std::size_t block_table::own_list() noexcept {
  return base::this_thread % std::tuple_size_v<decltype(free_)>;  // by its number
}

// From any list: where one thread makes blocks and another releases them the table must not grow.
handle block_table::take_released() noexcept {
  if (!any_released_.load(std::memory_order_relaxed)) return none;
  std::size_t const own = own_list();
  for (std::size_t i = 0; i < free_.size(); ++i) {
    list& from = free_[(own + i) % free_.size()];
    if (from.first.load(std::memory_order_relaxed) == none) continue;
    std::lock_guard lock(from.lock);
    handle const h = from.first.load(std::memory_order_relaxed);
    if (h == none) continue;
    from.first.store(blocks_[h].next, std::memory_order_relaxed);
    return h;
  }
  return none;
}

handle block_table::take_fresh() noexcept {
  std::uint64_t ordinal = used_.load(std::memory_order_relaxed);
  while (ordinal < capacity_ && pages_.open(ordinal - ordinal % window_ + window_)) {
    if (used_.compare_exchange_weak(ordinal, ordinal + 1, std::memory_order_relaxed)) {
      handle const h = spread(static_cast<handle>(ordinal));
      pages_.prepare(h);
      return h;
    }
  }
  return none;
}

handle block_table::acquire() noexcept {
  handle h = take_released();
  if (h == none) h = take_fresh();
  if (h == none) return none;
  block& b = blocks_[h];
  b.address.store(0, std::memory_order_relaxed);
  b.before = b.after = b.next = b.previous = b.later = b.earlier = none;
  b.units = b.segment = b.freed = 0;
  b.where = done;
  b.marked.store(0, std::memory_order_relaxed);
  return h;
}

void block_table::release(handle h) noexcept {
  if (!any_released_.load(std::memory_order_relaxed)) any_released_.store(true, std::memory_order_relaxed);
  list& to = free_[own_list()];
  std::lock_guard lock(to.lock);
  blocks_[h].now.store(state::unused, std::memory_order_relaxed);
  blocks_[h].next = to.first.load(std::memory_order_relaxed);
  to.first.store(h, std::memory_order_relaxed);
}

}  // namespace gpumem::space
