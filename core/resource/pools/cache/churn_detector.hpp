// Detects two loops of cudaMalloc and cudaFree of one size for which events are a good part of the work. One
// that does nothing else: only then is it worth having many blocks of that size. One that launches kernels
// faster than they end, with so few blocks that each few launches take an event: it gets as many as keep the
// GPU at work. Part of a magazine; any thread that uses it; relaxed, as a lost count costs nothing.
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

  // Counts an event that a request for blocks of so many units needed; was its work done at once? True where
  // it was not, in a row of those for this size.
  bool count_behind(std::uint32_t units, bool at_once) noexcept {
    bool const again = !at_once && units_.exchange(units, std::memory_order_relaxed) == units;
    std::uint32_t const row = again ? row_.load(std::memory_order_relaxed) + 1 : 0;
    row_.store(row, std::memory_order_relaxed);
    return row >= a_row;
  }
  void begin_again() noexcept { row_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t a_row = 16;    // of events and looks, 3 us each: half the price of a growth
  static constexpr std::uint32_t enough = 200;  // events: the price of a growth, 60 us to 100 us
  static constexpr std::uint64_t an_event_ns = 3'000;
  static constexpr std::uint64_t a_pair_ns = 250;

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint64_t> since_{0};
  std::atomic<std::uint32_t> units_{0};
  std::atomic<std::uint32_t> row_{0};
};

}  // namespace gpumem::resource
