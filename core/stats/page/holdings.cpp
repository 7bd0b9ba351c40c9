// See holdings.hpp.
#include "core/stats/page/holdings.hpp"

#include <algorithm>
#include <iterator>

namespace gpumem::stats {
namespace {

// Also the unknown one.
std::uint32_t libraries_used(page& now) noexcept {
  std::atomic_ref<std::uint32_t> const count(now.fixed.head.library_count);
  return std::max(count.load(std::memory_order_acquire), 1u);
}

std::uint64_t routed_of(page& now, std::size_t device_slot, std::uint32_t library) noexcept {
  std::uint64_t routed = 0;  // modulo 2^64: a block may be freed by another thread
  for (std::size_t i = 0, used = shards_used(now); i < used; ++i) {
    library_counters& one = now.shards[i].counters.libraries[place_of(device_slot, library)];
    routed += get(one.allocated) - get(one.freed);
  }
  return static_cast<std::int64_t>(routed) < 0 ? 0 : routed;
}

}  // namespace

void note_holdings(page& now, std::size_t device_slot, std::uint64_t held) noexcept {
  device_gauges& gauge = now.fixed.gauges[device_slot];
  std::uint64_t const before = get(gauge.libraries_peak);
  bool const is_peak = held > before + before / 100;
  if (is_peak) set(gauge.libraries_peak, held);
  for (std::uint32_t library = 0, used = libraries_used(now); library < used; ++library) {
    library_gauges& holds = now.fixed.library_gauges_of[device_slot][library];
    std::uint64_t const routed = routed_of(now, device_slot, library), observed = get(holds.observed);
    set(holds.highest, std::max(get(holds.highest), routed + observed));
    if (!is_peak) continue;
    set(holds.peak_routed, routed);
    set(holds.peak_observed, observed);
  }
}

std::uint64_t largest_holders(page& now, std::size_t device_slot,
                              holder_share (&largest)[max_holders]) noexcept {
  std::uint64_t all = 0;
  std::fill(std::begin(largest), std::end(largest), holder_share{});
  for (std::uint32_t library = 0, used = libraries_used(now); library < used; ++library) {
    std::uint64_t const observed = get(now.fixed.library_gauges_of[device_slot][library].observed);
    holder_share one{routed_of(now, device_slot, library) + observed, library};
    all += one.bytes;
    for (holder_share& place : largest) {
      if (one.bytes > place.bytes) std::swap(one, place);
    }
  }
  return all;
}

}  // namespace gpumem::stats
