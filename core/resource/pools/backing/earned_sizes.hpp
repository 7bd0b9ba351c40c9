// Which sizes of large blocks have shown that they come back: requested again within `release_after` of a
// free. By powers of two, so that sizes that vary a little are one. A size is told when it is freed without
// having come back, and when memory of it went back for its age: a request soon after makes it earned. Used
// under the suballocator's mutex, but for has().
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "core/base/mutant.hpp"

namespace gpumem::resource {

class earned_sizes {
 public:
  // Any thread, without a lock: a hint for who would take it otherwise.
  bool has(std::uint64_t bytes) const noexcept {
    return (earned_.load(std::memory_order_relaxed) >> class_of(bytes) & 1) != 0;
  }
  // Nothing of this size is kept for its sake from now on; a request within `release_after` earns it.
  void left(std::uint64_t bytes, std::uint64_t now) noexcept {
    left_at_[class_of(bytes)] = now;
    earned_.fetch_and(~(1ull << class_of(bytes)), std::memory_order_relaxed);
  }
  // A request; true: its size is earned, now or before.
  bool came_back(std::uint64_t bytes, std::uint64_t now, std::uint64_t within) noexcept {
    std::uint64_t const left = left_at_[class_of(bytes)];
    if (left != 0 && now - left <= within && !GPUMEM_MUTANT(never_earned))
      earned_.fetch_or(1ull << class_of(bytes), std::memory_order_relaxed);
    return has(bytes);
  }

 private:
  static constexpr std::size_t class_of(std::uint64_t bytes) noexcept {
    return static_cast<std::size_t>(std::bit_width(bytes | 1)) - 1;
  }

  std::atomic<std::uint64_t> earned_{0};     // by bit
  std::array<std::uint64_t, 64> left_at_{};  // nanoseconds; 0: never
};

}  // namespace gpumem::resource
