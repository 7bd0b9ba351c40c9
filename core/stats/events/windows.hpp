// Windows: stretches of time for each of which the highest requested and observed bytes of every device are
// kept, exact to the tolerance of the device's own peak (shard_sums.hpp) or less: the phases that are open.
// Shares are dealt out for the window that was opened last, which is never higher than those around it; a hit
// costs what it does without. Opened and closed by core/phases, on any thread; figures lie in the page's
// table of open phases, in the place of the same number.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

// A hint, without a lock.
inline constinit std::atomic<bool> windows_are_open{false};

// What was counted of one device so far, by all threads.
struct window_counts {
  std::uint64_t requests = 0, refusals = 0, growths = 0;
};
using counts_by_device = std::array<window_counts, max_devices>;

// Disk space for the table, once; null without a page.
phase_table* use_phases() noexcept;

// `number`: its place in the table, which is not open. Both tell what was counted until then.
void open_window(std::size_t number, counts_by_device& counts) noexcept;
void close_window(std::size_t number, counts_by_device& counts) noexcept;
// In a forked child: all are its parent's.
void forget_windows() noexcept;

// Chains of this device are exact at each request (the resource `statistics`): so are windows from now on.
void use_exact_windows(std::size_t device_slot) noexcept;

inline constexpr std::uint64_t no_window = ~std::uint64_t{0};
// So much is held now; returns how much more may be before somebody has to look. Under the page's lock.
std::uint64_t raise_windows(page& now, std::size_t device_slot, std::uint64_t held) noexcept;

}  // namespace gpumem::stats
