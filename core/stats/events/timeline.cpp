// sample_device: notes the ledger of one device now, its peak, and the timeline, which halves its
// resolution when it is full. A peak is one measured moment, never a sum of peaks of parts, and none is
// missed: each thread may request a share (settles_at) without a look at the others, all shares together at
// most the highest figure since the reset plus a tolerance. Freed bytes return to the thread's share. A
// thread whose share is used up adds up the shards here, and the shares are dealt out anew. A hit therefore
// compares two words of its own thread.
#include <algorithm>

#include "core/stats/callers/libraries.hpp"
#include "core/stats/page/holdings.hpp"
#include "core/stats/page/ledger.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

constexpr std::uint64_t first_period_ns = 10'000'000;

// Of a peak; the promise is 8 MiB or 1 %, the larger: what is on its way in other threads needs a part of it.
std::uint64_t tolerance(std::uint64_t highest) noexcept {
  return std::max<std::uint64_t>(6ull << 20, highest / 128);
}

std::uint64_t balance_of(device_counters& one) noexcept {
  return get(one.allocated_requested) - get(one.freed_requested);
}

class sum_of_shards {
 public:
  sum_of_shards(page& now, std::size_t slot) noexcept : page_(now), slot_(slot), used_(shards_used(now)) {
    std::uint64_t requested_now = 0, handed_now = 0;  // modulo 2^64: a block may be freed by another thread
    for (std::size_t i = 0; i < used_; ++i) {
      device_counters& one = of(i);
      requested_now += balance_of(one) - get(one.lost_requested);
      handed_now += get(one.allocated_handed) - get(one.freed_handed) - get(one.lost_handed);
    }
    requested = static_cast<std::int64_t>(requested_now) < 0 ? 0 : requested_now;
    handed = static_cast<std::int64_t>(handed_now) < 0 ? 0 : handed_now;
  }

  // Half of `left` to this thread, the rest to the others in equal parts.
  void deal_out(std::uint64_t left) noexcept {
    device_counters const* const mine = own_shard != nullptr ? &own_shard->devices[slot_] : nullptr;
    std::uint64_t const own = used_ > 1 ? left / 2 : left;
    std::uint64_t const others = used_ > 1 ? (left - own) / (used_ - 1) : 0;
    for (std::size_t i = 0; i < used_; ++i) {
      device_counters& one = of(i);
      set(one.settles_at, balance_of(one) + (&one == mine ? own : others));
    }
  }

  std::uint64_t requested = 0, handed = 0;

 private:
  device_counters& of(std::size_t shard) noexcept { return page_.shards[shard].counters.devices[slot_]; }

  page& page_;
  std::size_t const slot_;
  std::size_t const used_;
};

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
  look_again_if_changed();
  locked guard;
  sum_of_shards sum(*now, slot);
  device_gauges& gauge = now->fixed.gauges[slot];
  std::uint64_t const reserved = get(gauge.reserved);
  std::uint64_t const time = elapsed_ns();
  std::uint64_t const highest = std::max(get(gauge.highest_requested), sum.requested);
  set(gauge.highest_requested, highest);
  std::uint64_t const since = std::max(get(gauge.highest_since_reset), sum.requested);
  set(gauge.highest_since_reset, since);
  sum.deal_out(since + tolerance(since) - sum.requested);
  std::uint64_t const observed = get(gauge.observed);
  set(gauge.observed_sampled, observed);
  note_holdings(*now, slot, sum.requested + observed);
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
  record(*now, slot, timeline_sample{time, sum.requested, reserved, sum.requested, reserved});
}

void reset_peak(int device) noexcept {
  set(gauges(device).highest_since_reset, 0);
  sample_device(device);
}

void sample_if_grown(int device) noexcept {
  device_gauges& gauge = gauges(device);
  std::uint64_t const before = get(gauge.observed_sampled);
  if (get(gauge.observed) > before + tolerance(before)) sample_device(device);
}

}  // namespace gpumem::stats
