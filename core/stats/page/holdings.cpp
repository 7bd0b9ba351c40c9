// See holdings.hpp.
#include "core/stats/page/holdings.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "core/stats/page/page_state.hpp"

namespace gpumem::stats {
namespace {

// Also the unknown one.
std::uint32_t libraries_used(page& now) noexcept {
  std::atomic_ref<std::uint32_t> const count(now.fixed.head.library_count);
  return std::max(count.load(std::memory_order_acquire), 1u);
}

// Routed bytes by library. One thread's counters after the other's, as each look takes their cache lines away
// from the thread.
class routed_bytes {
 public:
  routed_bytes(page& now, std::size_t device_slot) noexcept : libraries(libraries_used(now)) {
    for (std::size_t i = 0, used = shards_used(now); i < used; ++i) {
      for (std::uint32_t library = 0; library < libraries; ++library) {
        library_counters& one = now.shards[i].counters.libraries[place_of(device_slot, library)];
        sums_[library] += get(one.allocated) - get(one.freed);
      }
    }
  }
  std::uint64_t of(std::uint32_t library) const noexcept {
    return static_cast<std::int64_t>(sums_[library]) < 0 ? 0 : sums_[library];
  }

  std::uint32_t const libraries;

 private:
  std::array<std::uint64_t, max_libraries> sums_{};  // modulo 2^64: a block may be freed by another thread
};

// The sites of samples alone, in the order they came: the whole table is 140 pages, of which most programs
// need two. Of this page those that its head counts. Under the page's lock.
constinit std::array<std::uint16_t, max_call_sites> in_order{};
std::span<std::uint16_t const> sampled_sites(page& now) noexcept {
  return std::span(in_order).first(get(now.fixed.head.sampled_sites));
}

// Live bytes of each of them, by its place in the table, of samples of this device; others are 0. Under the
// page's lock.
using site_bytes = std::uint64_t[max_call_sites];
site_bytes const& sampled_bytes(page& now, std::size_t device_slot) noexcept {
  static constinit site_bytes live{};
  for (std::uint16_t const site : sampled_sites(now)) {
    call_site_entry& entry = now.callers.sites[site - 1];
    bool const counts = entry.node == sample_node_of(device_slot);
    live[site - 1] = counts ? get(entry.allocated_bytes) - get(entry.freed_bytes) : 0;
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
  for (std::uint16_t const site : sampled_sites(now)) {
    std::uint64_t& bytes = live[site - 1];
    if (static_cast<std::int64_t>(bytes) < 0) bytes = 0;  // freed by a thread that was looked at before
  }
  return live;
}

void note_sites(page& now, std::size_t device_slot) noexcept {
  if (now.fixed.head.sampled_sites == 0) return;
  site_bytes const& live = sampled_bytes(now, device_slot);
  for (std::uint16_t const site : sampled_sites(now)) {
    call_site_entry& entry = now.callers.sites[site - 1];
    if (entry.node == sample_node_of(device_slot)) set(entry.peak_bytes, live[site - 1]);
  }
}

}  // namespace

void note_sampled_site(page& now, std::uint64_t site) noexcept {
  std::uint64_t const count = get(now.fixed.head.sampled_sites);
  in_order[count] = static_cast<std::uint16_t>(site);
  set(now.fixed.head.sampled_sites, count + 1);
}

void note_holdings(page& now, std::size_t device_slot, std::uint64_t held) noexcept {
  device_gauges& gauge = now.fixed.gauges[device_slot];
  std::uint64_t const before = get(gauge.libraries_peak);
  bool const is_peak = held > before + before / 100;
  if (is_peak) {
    set(gauge.libraries_peak, held);
    note_sites(now, device_slot);
  }
  routed_bytes const all_routed(now, device_slot);
  for (std::uint32_t library = 0; library < all_routed.libraries; ++library) {
    library_gauges& holds = now.fixed.library_gauges_of[device_slot][library];
    std::uint64_t const routed = all_routed.of(library), observed = get(holds.observed);
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
  routed_bytes const routed(now, device_slot);
  for (std::uint32_t library = 0; library < routed.libraries; ++library) {
    std::uint64_t const observed = get(now.fixed.library_gauges_of[device_slot][library].observed);
    holder_share one{routed.of(library) + observed, library};
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
  for (std::uint16_t const site : sampled_sites(now)) {
    site_share one{live[site - 1], site};
    all += one.bytes;
    if (one.bytes <= largest[max_failure_sites - 1].bytes) continue;
    for (site_share& place : largest) {
      if (one.bytes > place.bytes) std::swap(one, place);
    }
  }
  return all;
}

}  // namespace gpumem::stats
