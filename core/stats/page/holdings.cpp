// See holdings.hpp.
#include "core/stats/page/holdings.hpp"

#include <algorithm>
#include <iterator>

#include "core/stats/page/page_state.hpp"

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

// Live bytes of each entry of the table, of samples of this device; others are 0. Under the page's lock.
using site_bytes = std::uint64_t[max_call_sites];
site_bytes const& sampled_bytes(page& now, std::size_t device_slot) noexcept {
  static constinit site_bytes live{};
  for (std::size_t i = 0; i < max_call_sites; ++i) {
    call_site_entry& entry = now.callers.sites[i];
    bool const counts = get(entry.key) != 0 && entry.node == sample_node_of(device_slot);
    live[i] = counts ? get(entry.allocated_bytes) - get(entry.freed_bytes) : 0;
  }
  for (std::size_t i = 0, used = shards_used(now); i < used; ++i) {
    for (site_tally& tally : now.shards[i].counters.sites) {
      std::uint64_t const site = get(tally.site);
      if (site == 0 || site > max_call_sites ||
          now.callers.sites[site - 1].node != sample_node_of(device_slot))
        continue;
      live[site - 1] += get(tally.allocated_bytes) - get(tally.freed_bytes);
    }
  }
  for (std::uint64_t& bytes : live) {
    if (static_cast<std::int64_t>(bytes) < 0) bytes = 0;  // freed by a thread that was looked at before
  }
  return live;
}

void note_sites(page& now, std::size_t device_slot) noexcept {
  if (now.fixed.head.sampled_sites == 0) return;
  site_bytes const& live = sampled_bytes(now, device_slot);
  for (std::size_t i = 0; i < max_call_sites; ++i) {
    call_site_entry& entry = now.callers.sites[i];
    if (get(entry.key) != 0 && entry.node == sample_node_of(device_slot)) set(entry.peak_bytes, live[i]);
  }
}

}  // namespace

void note_holdings(page& now, std::size_t device_slot, std::uint64_t held) noexcept {
  device_gauges& gauge = now.fixed.gauges[device_slot];
  std::uint64_t const before = get(gauge.libraries_peak);
  bool const is_peak = held > before + before / 100;
  if (is_peak) {
    set(gauge.libraries_peak, held);
    note_sites(now, device_slot);
  }
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

std::uint64_t largest_sites(page& now, std::size_t device_slot,
                            site_share (&largest)[max_failure_sites]) noexcept {
  std::fill(std::begin(largest), std::end(largest), site_share{});
  if (now.fixed.head.sampled_sites == 0) return 0;
  locked const guard;
  site_bytes const& live = sampled_bytes(now, device_slot);
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < max_call_sites; ++i) {
    site_share one{live[i], i + 1};
    all += one.bytes;
    if (one.bytes <= largest[max_failure_sites - 1].bytes) continue;
    for (site_share& place : largest) {
      if (one.bytes > place.bytes) std::swap(one, place);
    }
  }
  return all;
}

}  // namespace gpumem::stats
