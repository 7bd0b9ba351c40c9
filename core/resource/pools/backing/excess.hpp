// How much more a pool has than its program ever needed at once. Sizes that drift, as those of vectors that
// grow or of sequences of any length, leave segments behind that no later request fits; nothing merges across
// their ends. Where a growth would take a pool to more than two and a half times what was in use or waited
// for the GPU at most, empty segments go first, and come back as one, which the next sizes fit; with random
// sizes a pool comes to rest below that. Beyond three times what was in use it also waits a little for them.
// Only where the source takes memory back without waiting for the GPU, and for a part of the time. Part of a
// segment_backing, under the pool's mutex. Makes no call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/mutant.hpp"
#include "core/resource/pools/backing/time_share.hpp"

namespace gpumem::resource {

class excess {
 public:
  static constexpr std::uint64_t longest_ns = 2'000'000;  // of a request, to give back
  struct state {
    std::uint64_t reserved = 0;
    std::uint64_t in_use = 0;   // of it
    std::uint64_t pending = 0;  // of it, not in use and waiting for the GPU
    std::uint64_t plenty = 0;   // up to so much it does not wait
  };
  struct remedy {
    bool needed = false;
    std::uint64_t goes = 0;     // bytes of empty segments that go first; 0: the time is up
    std::uint64_t wait_ns = 0;  // for so long at most until so many are done
  };
  // A growth by `bytes` at this time.
  remedy note_growth(std::uint64_t bytes, state const& is, std::uint64_t now) noexcept {
    most_in_use_ = std::max(most_in_use_, is.in_use + bytes);
    most_busy_ = std::max(most_busy_, is.in_use + is.pending + bytes);
    std::uint64_t const wanted = is.reserved + bytes, of_busy = std::max(least, most_busy_ / 2 * 5);
    std::uint64_t const of_use = std::max({least, is.plenty, 3 * most_in_use_});
    std::uint64_t const bound = std::min(of_busy, of_use);
    if (GPUMEM_MUTANT(always_excess) || GPUMEM_MUTANT(excess_is_done))
      return {true, is.reserved, is.pending != 0 ? longest_wait_ns : 0};
    if (wanted <= bound) return {};
    if (share_.left(now) == 0) return {.needed = true};
    return {true, wanted - bound, wanted <= of_use ? 0 : longest_wait_ns};
  }
  // Bytes of empty segments that come back as one: the blocks before this one may still wait for the GPU. In
  // a segment of so many a stream's requests go round, as what it freed serves it again in order.
  static constexpr std::uint64_t to_join(std::uint64_t bytes) noexcept {
    return bytes < large ? bytes : 4 * bytes;
  }
  void spent(std::uint64_t ns) noexcept { share_.spent(ns); }

 private:
  static constexpr std::uint64_t large = 16ull << 20;
  static constexpr std::uint64_t least = 256ull << 20;  // what less could save is not worth it
  // A kernel may wait for what this thread does next.
  static constexpr std::uint64_t longest_wait_ns = 20'000'000;

  std::uint64_t most_in_use_ = 0;
  std::uint64_t most_busy_ = 0;
  time_share share_{16, 5'000'000};
};

}  // namespace gpumem::resource
