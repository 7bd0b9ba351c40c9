// How much more a pool has than its program ever needed at once. Sizes that drift, as those of vectors that
// grow or of sequences of any length, leave segments behind that no later request fits; nothing merges across
// their ends. Where a growth would take a pool to more than two and a half times what was in use or waited
// for the GPU at most, empty segments go first, and come back as one, which the next sizes fit; with random
// sizes a pool comes to rest below that. Beyond three times what was in use it also waits a little for them.
// Of a small pool they go a few times in its life, so that a small program has what it natively has. What
// parts of an arena give lies with the superblocks, whose own pool then sees it. Part of a segment_backing,
// under the pool's mutex. Makes no call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/mutant.hpp"
#include "core/resource/pools/backing/time_share.hpp"
#include "core/stream_order/epochs.hpp"

namespace gpumem::resource {

class excess {
 public:
  struct state {
    std::uint64_t reserved = 0;
    std::uint64_t in_use = 0;   // of it
    std::uint64_t pending = 0;  // of it, not in use and waiting for the GPU
    std::uint64_t empty = 0;    // of little, in segments of which nothing is in use or waits
    std::uint64_t plenty = 0;   // up to so much it does not wait
  };
  struct remedy {
    bool needed = false;
    std::uint64_t goes = 0;     // bytes of empty segments that go first; 0: the time is up
    std::uint64_t wait_ns = 0;  // for so long at most until so many are done
    std::uint64_t give_ns = 0;  // for so long at most it gives back; more is a process's first free in order
    std::uint64_t most = 0;     // a pool that takes more than the request has no more than so many bytes then
  };
  // A growth by `bytes` at this time.
  remedy note_growth(std::uint64_t bytes, state const& is, std::uint64_t now) noexcept {
    most_in_use_ = std::max(most_in_use_, is.in_use + bytes);
    most_busy_ = std::max(most_busy_, is.in_use + is.pending + bytes);
    std::uint64_t const wanted = is.reserved + bytes, of_busy = std::max(least, most_busy_ / 2 * 5);
    std::uint64_t const of_use = std::max({least, is.plenty, 3 * most_in_use_});
    std::uint64_t const bound = std::min(of_busy, of_use);
    if (GPUMEM_MUTANT(always_excess) || GPUMEM_MUTANT(excess_is_done))
      return {true, is.reserved, is.pending != 0 ? longest_wait_ns : 0, least_give_ns, ~std::uint64_t{0}};
    if (wanted <= bound) return of_little(wanted, is);
    std::uint64_t const earned = native_ns(to_join(bytes));
    share_.earned(earned);
    remedy too{.needed = true, .give_ns = std::max(least_give_ns, earned), .most = of_use};
    if (share_.left(now) == 0) return too;
    too.goes = wanted - bound;
    too.wait_ns = wanted <= of_use ? 0 : longest_wait_ns;
    return too;
  }
  static constexpr bool is_little(std::uint64_t reserved) noexcept { return reserved <= 16ull << 20; }
  // The GPU is behind by more than what is in use: an event now tells what was freed before this growth from
  // what is freed later, so that a wait at a later one takes as long as it has to.
  static constexpr bool may_wait_soon(state const& is) noexcept {
    return is.pending > is.in_use && is.reserved > least;
  }
  // Bytes of empty segments that come back as one: the blocks before this one may still wait for the GPU. In
  // a segment of so many a stream's requests go round, as what it freed serves it again in order.
  static constexpr std::uint64_t to_join(std::uint64_t bytes) noexcept {
    return bytes < large ? bytes : 4 * bytes;
  }
  // A request took so long for it, and the GPU has no work any more.
  void spent(std::uint64_t ns) noexcept { share_.spent(ns); }
  // A wait in vain: `done` was the last epoch that was done, and there is no wait until another is.
  bool may_wait(stream_order::epoch_id done) const noexcept { return !in_vain_ || *in_vain_ != done; }
  void note_in_vain(stream_order::epoch_id done) noexcept { in_vain_ = done; }

 private:
  // Natively each such request costs a cudaMalloc, and the free before it a cudaFree.
  remedy of_little(std::uint64_t wanted, state const& is) noexcept {
    if (!is_little(wanted) || wanted <= most_busy_ || is.empty == 0 || times_of_little_ == 0) return {};
    --times_of_little_;
    return {.needed = true, .goes = std::min(is.empty, wanted - most_busy_), .give_ns = least_give_ns};
  }
  // What a cudaMalloc and a cudaFree of so many bytes take natively, the wait for the GPU apart: each growth
  // may take as long for what it gives back. Measured (H100).
  static constexpr std::uint64_t native_ns(std::uint64_t bytes) noexcept {
    return 50'000 + (bytes >> 20) * 600;
  }
  static constexpr std::uint64_t large = 16ull << 20;
  static constexpr std::uint64_t least = 256ull << 20;  // what less could save is not worth it each time
  static constexpr std::uint64_t least_give_ns = 2'000'000;
  // A kernel may wait for what this thread does next.
  static constexpr std::uint64_t longest_wait_ns = 20'000'000;

  unsigned times_of_little_ = 4;
  std::uint64_t most_in_use_ = 0;
  std::uint64_t most_busy_ = 0;
  std::optional<stream_order::epoch_id> in_vain_;
  time_share share_{16, 5'000'000};
};

}  // namespace gpumem::resource
