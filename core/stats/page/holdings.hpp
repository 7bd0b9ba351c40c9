// What each library holds of a device: by routed blocks, added up over all threads, and by observed memory;
// and what the samples of each call site stand for. For the ledger's peak and for refusals; slow paths, any
// thread. Other threads count meanwhile.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

inline std::size_t shards_used(page& now) noexcept {
  return std::atomic_ref<std::uint32_t>(now.fixed.head.shards_used).load(std::memory_order_acquire);
}

// The table has a new site of samples, whose number counts from 1. Under the page's lock.
void note_sampled_site(page& now, std::uint64_t site) noexcept;

// Notes the highest of each; and where all together, `held` bytes, have risen by 1 %, what each holds then,
// call sites too.
// Under the page's lock.
void note_holdings(page& now, std::size_t device_slot, std::uint64_t held) noexcept;

// The largest holders now, the largest first, and none behind them; returns what all hold.
std::uint64_t largest_holders(page& now, std::size_t device_slot,
                              holder_share (&largest)[max_holders]) noexcept;

// The same of call sites, by their samples; returns what all of them stand for. Takes the page's lock.
std::uint64_t largest_sites(page& now, std::size_t device_slot,
                            site_share (&largest)[max_failure_sites]) noexcept;

}  // namespace gpumem::stats
