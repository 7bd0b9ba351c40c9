// See resource.hpp.
#include "core/resource/resource.hpp"

#include <time.h>

#include "core/stats/state_page.hpp"

namespace gpumem::resource {

// Not in the class, where the compiler would guess at each call that they are what is called.
void resource::deallocate(space::handle, order const&) noexcept {}
void resource::freed(space::handle, order const&) noexcept {}

space::handle resource::block_at(space::segment const& in, std::uint64_t address) noexcept {
  space::handle h = in.first;
  while (h != space::none && address >= blocks()[h].end()) h = blocks()[h].after;
  return h;
}

void outlive_ended_contexts(habitat const& home, std::uint64_t base, std::uint64_t bytes) noexcept {
  auto const is_anothers = [&](space::segment_owner& owner) {
    return static_cast<resource&>(owner).home().context != home.context;
  };
  constexpr timespec pause{.tv_sec = 0, .tv_nsec = 50'000};
  for (int i = 0; i < 20'000 && home.where.segments.any_owner(base, bytes, is_anothers); ++i) {
    nanosleep(&pause, nullptr);
  }
}

void note_reserved(habitat const& home, std::uint64_t bytes) noexcept {
  auto& gauges = stats::gauges(home.device);
  stats::gauge_add(gauges.reserved, bytes);
  stats::gauge_add(gauges.segments, 1);
  reserved_changed = true;
}

void note_released(habitat const& home, std::uint64_t bytes) noexcept {
  auto& gauges = stats::gauges(home.device);
  stats::gauge_subtract(gauges.reserved, bytes);
  stats::gauge_subtract(gauges.segments, 1);
  reserved_changed = true;
}

}  // namespace gpumem::resource
