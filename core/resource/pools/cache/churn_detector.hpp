// Detects a loop of cudaMalloc and cudaFree of one size: events come so fast that they are a good part of
// the work. Only then is it worth having more blocks of that size. A program that launches a kernel between
// (2 us at least) would not notice the gain, and would hold the memory for good. Part of a magazine; any
// thread that uses it; relaxed, as a lost count costs nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.hpp"

namespace gpumem::resource {

class churn_detector {
 public:
  // Counts an event that settles `blocks`. True once `enough` of them came in a row that leaves no time for
  // other work; then it begins anew.
  bool count_and_check(std::uint32_t blocks) noexcept {
    std::uint32_t const seen = count_.load(std::memory_order_relaxed) + 1;
    if (seen == 1) since_.store(base::now_ns(), std::memory_order_relaxed);
    count_.store(seen < enough ? seen : 0, std::memory_order_relaxed);
    std::uint64_t const time = enough * (an_event_ns + blocks * a_pair_ns);
    return seen >= enough && base::now_ns() - since_.load(std::memory_order_relaxed) <= time;
  }

 private:
  static constexpr std::uint32_t enough = 200;  // events: the price of a growth, 60 us to 100 us
  static constexpr std::uint64_t an_event_ns = 3'000;
  static constexpr std::uint64_t a_pair_ns = 250;

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint64_t> since_{0};
};

}  // namespace gpumem::resource
