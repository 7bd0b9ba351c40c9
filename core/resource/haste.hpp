// Tells when events come so fast that they are a good part of what the program does: a loop of cudaMalloc and
// cudaFree of one size. A program that launches a kernel between (2 us at least) gains nothing that it would
// notice from more blocks of that size, and would hold their memory for good. Part of a magazine; any thread
// that uses that, relaxed: a lost count costs nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.hpp"

namespace gpumem::resource {

class haste {
 public:
  // Counts an event. True once `enough` of them came in a row of `each_ns` on average; then it begins anew.
  bool has_enough() noexcept {
    std::uint32_t const seen = count_.load(std::memory_order_relaxed) + 1;
    if (seen == 1) since_.store(base::now_ns(), std::memory_order_relaxed);
    count_.store(seen < enough ? seen : 0, std::memory_order_relaxed);
    return seen >= enough && base::now_ns() - since_.load(std::memory_order_relaxed) <= enough * each_ns;
  }

 private:
  static constexpr std::uint32_t enough = 200;  // events: the price of a growth, 60 us to 100 us
  static constexpr std::uint64_t each_ns = 3'000;

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint64_t> since_{0};
};

}  // namespace gpumem::resource
