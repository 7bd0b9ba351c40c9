// When a pool that many share gives back the segments of which nothing is in use, so that it does not keep
// what each growth once was for: after one that came near the most it ever had although much was idle, of
// which nothing fitted; at the next free that natively waits for the GPU, and for a small part of the time.
// Part of a suballocator, under its mutex, but for is_wanted(). Makes no call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/resource/pools/backing/time_share.hpp"

namespace gpumem::resource {

class surplus {
 public:
  // A growth to `reserved` bytes in all, while so many were idle and done.
  void note_growth(std::uint64_t idle, std::uint64_t reserved) noexcept {
    most_ = std::max(most_, reserved);
    if (reserved >= least && idle > reserved / 4 && reserved >= most_ / 8 * 7)
      wanted_.store(true, std::memory_order_relaxed);
  }
  bool is_wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  void drop() noexcept { wanted_.store(false, std::memory_order_relaxed); }
  // How long it may take, if it is wanted, at this time; 0: not now. Nanoseconds. Then spent() says how long
  // it took.
  std::uint64_t begin(std::uint64_t now) noexcept {
    if (!is_wanted()) return 0;
    drop();
    return share_.left(now);
  }
  void spent(std::uint64_t ns) noexcept { share_.spent(ns); }

 private:
  static constexpr std::uint64_t least = 64ull << 20;  // what less could save is not worth it

  std::atomic<bool> wanted_{false};
  std::uint64_t most_ = 0;
  time_share share_{64, 20'000'000};
};

}  // namespace gpumem::resource
