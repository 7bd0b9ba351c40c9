// sample_device: the ledger of one device now, its peak, and the timeline that halves its resolution when it
// is full. Called on slow paths (growth, shrinking, finished epochs) from any thread; adds up the shards, so
// never on a hot path. A peak is one measured moment, never a sum of peaks of parts.
#include <algorithm>

#include "core/stats/page_state.hpp"
#include "core/stats/state_page.hpp"

namespace gpumem::stats {
namespace {

constexpr std::uint64_t first_period_ns = 10'000'000;

struct amounts {
  std::uint64_t requested = 0, handed = 0;
};

std::uint64_t difference(std::uint64_t more, std::uint64_t less) noexcept {
  return more > less ? more - less : 0;
}

amounts add_up(page& now, std::size_t slot) noexcept {
  std::uint64_t given_requested = 0, given_handed = 0, back_requested = 0, back_handed = 0;
  amounts sum;
  std::uint32_t const used =
      std::atomic_ref<std::uint32_t>(now.fixed.head.shards_used).load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
    device_counters& one = now.shards[i].counters.devices[slot];
    given_requested += get(one.allocated_requested);
    given_handed += get(one.allocated_handed);
    back_requested += get(one.freed_requested);
    back_handed += get(one.freed_handed);
  }
  sum.requested = difference(given_requested, back_requested);
  sum.handed = difference(given_handed, back_handed);
  return sum;
}

void merge(timeline_sample& into, timeline_sample const& later) noexcept {
  into.requested_high = std::max(into.requested_high, later.requested_high);
  into.reserved_high = std::max(into.reserved_high, later.reserved_high);
  into.requested_last = later.requested_last;
  into.reserved_last = later.reserved_last;
}

void halve(device_timeline& line, device_entry& entry) noexcept {
  entry.timeline_period_ns *= 2;
  std::uint64_t kept = 0;
  for (std::size_t i = 0; i < timeline_samples; ++i) {
    timeline_sample const sample = line.samples[i];
    if (kept != 0 &&
        sample.t_ns / entry.timeline_period_ns == line.samples[kept - 1].t_ns / entry.timeline_period_ns) {
      merge(line.samples[kept - 1], sample);
    } else {
      line.samples[kept++] = sample;
    }
  }
  entry.timeline_count = kept;
}

void record(page& now, std::size_t slot, timeline_sample const& sample) noexcept {
  device_entry& entry = now.fixed.devices[slot];
  device_timeline& line = now.timelines[slot];
  if (entry.present == 0) return;  // no disk space was reserved for it
  if (entry.timeline_period_ns == 0) entry.timeline_period_ns = first_period_ns;
  if (entry.timeline_count != 0) {
    timeline_sample& last = line.samples[entry.timeline_count - 1];
    if (sample.t_ns / entry.timeline_period_ns <= last.t_ns / entry.timeline_period_ns) {
      merge(last, sample);
      return;
    }
  }
  while (entry.timeline_count == timeline_samples) halve(line, entry);
  line.samples[entry.timeline_count] = sample;
  std::atomic_ref<std::uint64_t>(entry.timeline_count).fetch_add(1, std::memory_order_release);
}

}  // namespace

void sample_device(int device) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  std::size_t const slot = device_slot(device);
  locked guard;
  amounts const sum = add_up(*now, slot);
  device_gauges& gauge = now->fixed.gauges[slot];
  std::uint64_t const reserved = get(gauge.reserved);
  std::uint64_t const time = elapsed_ns();
  set(gauge.highest_requested, std::max(get(gauge.highest_requested), sum.requested));
  // While reserved stays at its highest, the moment of most requested bytes is the one that tells how well it
  // was used.
  bool const fuller = reserved == get(gauge.peak_reserved) && sum.requested > get(gauge.peak_requested);
  if (reserved > get(gauge.peak_reserved) || (reserved != 0 && fuller)) {
    set(gauge.peak_at_ns, time);
    set(gauge.peak_reserved, reserved);
    set(gauge.peak_requested, sum.requested);
    set(gauge.peak_handed, sum.handed);
    set(gauge.peak_pending, get(gauge.pending));
    set(gauge.peak_used, get(gauge.used));
    set(gauge.peak_observed, get(gauge.observed));
  }
  record(*now, slot, timeline_sample{time, sum.requested, reserved, sum.requested, reserved});
}

}  // namespace gpumem::stats
