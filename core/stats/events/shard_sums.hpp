// What all threads together requested of one device now, and the shares in which they may request more before
// somebody has to look again: see timeline.cpp. Under the page's lock; other threads count meanwhile, so that
// a thread's own share is renewed by itself, those of others by whoever adds up.
#pragma once

#include <algorithm>

#include "core/base/threads/processor_hints.hpp"
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
    // Each line is another core's, which is waited for once for all of them, not for each; deal_out writes
    // there.
    for (std::size_t i = 0; i < used_; ++i) base::prefetch_to_write(&of(i));
    // Both of one thread one after the other: what it gets between would be rounding.
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

  // Of `left` an eighth to the threads that requested nothing since they were dealt to, the rest to the
  // others and to this one, in equal parts: of 16 threads that request alike the one that gets more has it at
  // the price of 15 looks. `at_once`: also to those that are to look at their next request (settle_soon).
  void deal_out(std::uint64_t left, bool at_once = true) noexcept {
    device_counters const* const mine = own_shard != nullptr ? &own_shard->devices[slot_] : nullptr;
    auto const is_active = [&](device_counters& one) {
      return &one == mine || get(one.allocated_requested) != get(one.dealt_at);
    };
    std::size_t active = 0;
    for (std::size_t i = 0; i < used_; ++i) active += is_active(of(i)) ? 1 : 0;
    std::uint64_t const for_idle = active < used_ ? left / 8 : 0;
    std::uint64_t const share = (left - for_idle) / std::max<std::size_t>(active, 1);
    std::uint64_t const idle_share = for_idle / std::max<std::size_t>(used_ - active, 1);
    std::size_t shares_left = active;  // who requests only now gets no share that nobody counted
    for (std::size_t i = 0; i < used_; ++i) {
      device_counters& one = of(i);
      if (!at_once && get(one.settles_at) == settles_soon) continue;
      bool const has_share = shares_left != 0 && is_active(one);
      if (has_share) --shares_left;
      std::uint64_t const part = has_share ? share : idle_share;
      set(one.dealt_at, get(one.allocated_requested));
      set(one.settles_at, balance_of(one) + part);
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
