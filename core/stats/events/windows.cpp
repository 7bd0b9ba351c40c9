// See windows.hpp. Open windows are a list, the newest first: each began at the end of those behind it, so
// their highest figures do not fall from the newest to the oldest, and what is held now raises the first ones
// only. The list is in memory of the process, under the page's lock.
#include "core/stats/events/windows.hpp"

#include "core/stats/events/shard_sums.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

using place = std::uint16_t;  // from 1 on; 0: none
static_assert(max_open_phases < 1 << 16);

struct neighbours {
  place older = 0, newer = 0;
};
constinit std::array<neighbours, max_open_phases + 1> links{};
constinit place newest = 0;
constinit std::array<std::atomic<bool>, max_devices> exact{};

phase_window& window_of(page& now, place which, std::size_t device_slot) noexcept {
  return now.phases.open[which - 1].devices[device_slot];
}

bool is_in_use(page& now, std::size_t device_slot) noexcept {
  return std::atomic_ref<std::uint64_t>(now.fixed.devices[device_slot].present)
             .load(std::memory_order_acquire) != 0;
}

// Of a window: a sixteenth of what was added in it, but no less than threads need for requests that look at
// nobody else; and never more than the promise of shard_sums.hpp.
std::uint64_t tolerance_of(phase_window& window, std::size_t threads) noexcept {
  std::uint64_t const highest = get(window.highest), added = highest - get(window.began);
  std::uint64_t const least = std::uint64_t{64} << 10;
  return std::min(tolerance(highest), std::max(least * threads * threads, added / 16));
}

// All devices: what is held raises the windows, and shares are dealt out for the newest, which `begins` now
// or was there before.
void look(page& now, place begins, counts_by_device& counts) noexcept {
  for (std::size_t d = 0; d < max_devices; ++d) {
    if (begins != 0) set(window_of(now, begins, d).began, 0), set(window_of(now, begins, d).highest, 0);
    if (!is_in_use(now, d)) continue;
    shard_sums sum(now, d);
    device_gauges& gauge = now.fixed.gauges[d];
    shard_sums::counts const counted = sum.count();
    counts[d] = {counted.requests, counted.refusals, get(gauge.growths)};
    std::uint64_t const held = sum.requested + get(gauge.observed);
    if (begins != 0) set(window_of(now, begins, d).began, held);
    std::uint64_t const room = raise_windows(now, d, held);
    if (begins == 0) continue;
    std::uint64_t const highest = std::max(get(gauge.highest_requested), sum.requested);
    set(gauge.highest_requested, highest);
    std::uint64_t const since = std::max(get(gauge.highest_since_reset), sum.requested);
    set(gauge.highest_since_reset, since);
    sum.deal_out(std::min(since + tolerance(since) - sum.requested, room), false);
  }
}

}  // namespace

phase_table* use_phases() noexcept {
  page* const now = current_page();
  if (now == nullptr) return nullptr;
  locked const guard;
  page_header& head = now->fixed.head;
  if (head.phases_in_use == 0) back_part(*now, &now->phases, sizeof now->phases);
  std::atomic_ref<std::uint32_t>(head.phases_in_use).store(1, std::memory_order_release);
  return &now->phases;
}

void open_window(std::size_t number, counts_by_device& counts) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  locked const guard;
  auto const which = static_cast<place>(number + 1);
  links[which] = {.older = newest, .newer = 0};
  if (newest != 0) links[newest].newer = which;
  newest = which;
  windows_are_open.store(true, std::memory_order_relaxed);
  look(*now, which, counts);
}

void close_window(std::size_t number, counts_by_device& counts) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  locked const guard;
  look(*now, 0, counts);
  auto const which = static_cast<place>(number + 1);
  neighbours const its = links[which];
  if (its.newer != 0) links[its.newer].older = its.older;
  if (its.older != 0) links[its.older].newer = its.newer;
  if (newest == which) newest = its.older;
  windows_are_open.store(newest != 0, std::memory_order_relaxed);
}

void forget_windows() noexcept {
  newest = 0;
  windows_are_open.store(false, std::memory_order_relaxed);
  for (auto& one : exact) one.store(false, std::memory_order_relaxed);
}

void use_exact_windows(std::size_t device_slot) noexcept {
  exact[device_slot].store(true, std::memory_order_relaxed);
}

std::uint64_t raise_windows(page& now, std::size_t device_slot, std::uint64_t held) noexcept {
  if (newest == 0) return no_window;
  for (place one = newest; one != 0; one = links[one].older) {
    std::uint64_t& highest = window_of(now, one, device_slot).highest;
    if (get(highest) >= held) break;
    set(highest, held);
  }
  phase_window& last = window_of(now, newest, device_slot);
  bool const is_exact = exact[device_slot].load(std::memory_order_relaxed);
  return get(last.highest) - held + (is_exact ? 0 : tolerance_of(last, shards_used(now)));
}

}  // namespace gpumem::stats
