// What all threads together requested of one device now, and the shares in which they may request more before
// somebody has to look again: see timeline.cpp. Under the page's lock; other threads count meanwhile, so that
// a thread's own share is renewed by itself, those of others by whoever adds up.
#pragma once

#include <algorithm>

#include "core/stats/page/holdings.hpp"
#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

// Of a peak; the promise is 8 MiB or 1 %, the larger: what is on its way in other threads needs a part of it.
inline std::uint64_t tolerance(std::uint64_t highest) noexcept {
  return std::max<std::uint64_t>(6ull << 20, highest / 128);
}

class shard_sums {
 public:
  shard_sums(page& now, std::size_t slot) noexcept : page_(now), slot_(slot), used_(shards_used(now)) {
    std::uint64_t requested_now = 0, handed_now = 0;  // modulo 2^64: a block may be freed by another thread
    for (std::size_t i = 0; i < used_; ++i) {
      device_counters& one = of(i);
      requested_now += balance_of(one) - get(one.lost_requested);
      handed_now += get(one.allocated_handed) - get(one.freed_handed) - get(one.lost_handed);
    }
    requested = static_cast<std::int64_t>(requested_now) < 0 ? 0 : requested_now;
    handed = static_cast<std::int64_t>(handed_now) < 0 ? 0 : handed_now;
  }

  // So far; refused ones are requests too.
  struct counts {
    std::uint64_t requests = 0, refusals = 0;
  };
  counts count() noexcept {
    counts all;
    for (std::size_t i = 0; i < used_; ++i) {
      all.refusals += get(of(i).out_of_memory);
      all.requests += get(of(i).allocated_blocks);
    }
    all.requests += all.refusals;
    return all;
  }

  // Half of `left` to this thread, the rest to the others in equal parts. `at_once`: also to those that are
  // to look at their next request (settle_soon).
  void deal_out(std::uint64_t left, bool at_once = true) noexcept {
    device_counters const* const mine = own_shard != nullptr ? &own_shard->devices[slot_] : nullptr;
    std::uint64_t const own = used_ > 1 ? left / 2 : left;
    std::uint64_t const others = used_ > 1 ? (left - own) / (used_ - 1) : 0;
    for (std::size_t i = 0; i < used_; ++i) {
      device_counters& one = of(i);
      if (!at_once && get(one.settles_at) == settles_soon) continue;
      set(one.settles_at, balance_of(one) + (&one == mine ? own : others));
    }
  }

  std::uint64_t requested = 0, handed = 0;

 private:
  static std::uint64_t balance_of(device_counters& one) noexcept {
    return get(one.allocated_requested) - get(one.freed_requested);
  }
  device_counters& of(std::size_t shard) noexcept { return page_.shards[shard].counters.devices[slot_]; }

  page& page_;
  std::size_t const slot_;
  std::size_t const used_;
};

}  // namespace gpumem::stats
