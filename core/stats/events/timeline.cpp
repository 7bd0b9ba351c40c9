// sample_device: notes the ledger of one device now, its peak, and the timeline, which halves its
// resolution when it is full. A peak is one measured moment, never a sum of peaks of parts, and none is
// missed: each thread may request a share (settles_at) without a look at the others, all shares together at
// most the highest figure since the reset plus a tolerance. Freed bytes return to the thread's share. A
// thread whose share is used up adds up the shards here, and the shares are dealt out anew, to all: who waits
// to do the same has its share then. A hit therefore compares two words of its own thread.
#include <algorithm>

#include "core/base/threads/backoff.hpp"
#include "core/stats/callers/libraries.hpp"
#include "core/stats/events/shard_sums.hpp"
#include "core/stats/events/windows.hpp"
#include "core/stats/page/holdings.hpp"
#include "core/stats/page/ledger.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

constexpr std::uint64_t first_period_ns = 10'000'000;

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

// Under the page's lock.
void sample(page& now, std::size_t slot) noexcept {
  shard_sums sum(now, slot);
  device_gauges& gauge = now.fixed.gauges[slot];
  std::uint64_t const reserved = get(gauge.reserved);
  std::uint64_t const time = elapsed_ns();
  std::uint64_t const highest = std::max(get(gauge.highest_requested), sum.requested);
  set(gauge.highest_requested, highest);
  std::uint64_t const since = std::max(get(gauge.highest_since_reset), sum.requested);
  set(gauge.highest_since_reset, since);
  std::uint64_t const observed = get(gauge.observed);
  std::uint64_t left = since + tolerance(since) - sum.requested;
  if (windows_are_open.load(std::memory_order_relaxed)) [[unlikely]]
    left = std::min(left, raise_windows(now, slot, sum.requested + observed));
  sum.deal_out(left);
  set(gauge.observed_sampled, observed);
  note_holdings(now, slot, sum.requested + observed);
  // While reserved stays at its highest, the moment of most requested bytes is the one that tells how well it
  // was used.
  bool const fuller = reserved == get(gauge.peak_reserved) && sum.requested > get(gauge.peak_requested);
  if (reserved > get(gauge.peak_reserved) || (reserved != 0 && fuller)) {
    gauge_change const together(gauge);
    set(gauge.peak_at_ns, time);
    set(gauge.peak_reserved, reserved);
    set(gauge.peak_requested, sum.requested);
    set(gauge.peak_handed, sum.handed);
    set(gauge.peak_pending, get(gauge.pending));
    set(gauge.peak_observed, get(gauge.observed));
    last_asked const asked = when_last_asked(gauge);
    set(gauge.peak_unseen, asked.unseen);
    set(gauge.peak_elsewhere, asked.elsewhere);
  }
  record(now, slot, timeline_sample{time, sum.requested, reserved, sum.requested, reserved});
}

}  // namespace

void sample_device(int device) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  look_again_if_changed();
  locked const guard;
  sample(*now, device_slot(device));
}

void renew_share(int device) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  std::size_t const slot = device_slot(device);
  look_again_if_changed();
  device_counters& mine = local().devices[slot];
  for (base::backoff<> between; must_settle(mine); between.wait()) {
    locked const guard(std::try_to_lock);
    if (guard.owns_lock()) {
      if (must_settle(mine)) sample(*now, slot);
      return;
    }
  }
}

void reset_peak(int device) noexcept {
  set(gauges(device).highest_since_reset, 0);
  sample_device(device);
}

void sample_if_grown(int device) noexcept {
  device_gauges& gauge = gauges(device);
  std::uint64_t const before = get(gauge.observed_sampled);
  bool const is_watched = windows_are_open.load(std::memory_order_relaxed) && get(gauge.observed) > before;
  if (is_watched || get(gauge.observed) > before + tolerance(before)) sample_device(device);
}

}  // namespace gpumem::stats
