// What the unseen bytes of a device may be, told by when they came, as the driver says only how much is in
// use by anyone. Before this process took anything through a hook: the context, or other processes. Later:
// a library that bypasses the hooks, another process, or the driver itself, which also takes whole pages for
// each block that it gives. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/stats/snapshot.hpp"

namespace gpumem::report {

// From here on growth stands out. Code of kernels that the driver loads late stays below it in most programs.
inline constexpr std::uint64_t unseen_growth_that_stands_out = std::uint64_t{1} << 30;

// How much unseen memory came after the first look; unknown when nobody looked.
inline std::optional<std::uint64_t> unseen_since(stats::device_totals const& device) {
  if (device.gauges.first_looked == 0 || !device.now.unseen) return std::nullopt;
  return *device.now.unseen - std::min(*device.now.unseen, device.gauges.first_unseen);
}

// As much of it as the driver may have rounded up: a block takes less than a page more than was asked for.
inline bool may_be_rounding(std::uint64_t unseen, stats::device_totals const& device) {
  constexpr std::uint64_t driver_page = 2u << 20;
  return unseen / driver_page < device.gauges.used_segments;
}

}  // namespace gpumem::report
