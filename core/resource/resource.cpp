// See resource.hpp.
#include "core/resource/resource.hpp"

#include "core/stats/state_page.hpp"

namespace gpumem::resource {

stats::device_counters& resource::count_device() noexcept {
  return stats::local().devices[stats::device_slot(home_.device)];
}

space::handle resource::block_at(space::segment const& in, std::uint64_t address) noexcept {
  space::handle h = in.first;
  while (h != space::none && address >= blocks()[h].end()) h = blocks()[h].after;
  return h;
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
