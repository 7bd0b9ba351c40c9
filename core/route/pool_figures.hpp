// What a device's default memory pool says of itself, for the blocks that chains serve in its place.
// Counted as the driver counts (measured, driver 580): used is the bytes asked for, and a block that was
// freed without a stream stays used; reserved grows in whole steps. Counting starts at the program's first
// question, with what is live then; the peaks start there as well. Any thread; one object for each device.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace gpumem::route {

class pool_figures {
 public:
  // A block of these bytes was handed out; gave(): it was freed.
  void took(std::uint64_t bytes) noexcept {
    raise(used_high_, used_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
    std::uint64_t const held = held_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    raise(reserved_, rounded(held));
    raise(reserved_high_, rounded(held));
  }
  void gave(std::uint64_t bytes, bool stream_ordered) noexcept {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    if (stream_ordered) used_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  // Of another pool from now on.
  void renew() noexcept {
    for (auto* each : {&used_, &used_high_, &held_, &reserved_, &reserved_high_}) each->store(0);
  }

  // The driver gives back what is idle by whole steps: at a trim it keeps at least so much, at a
  // synchronisation at most the threshold.
  void trimmed(std::uint64_t keep) noexcept { lower(rounded(keep)); }
  // The program has waited: reserved goes down to the threshold, in bytes, as the driver's does.
  void synchronized(std::uint64_t threshold) noexcept { lower(threshold / step * step); }

  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::uint64_t used_high() const noexcept { return used_high_.load(std::memory_order_relaxed); }
  std::uint64_t reserved() const noexcept { return reserved_.load(std::memory_order_relaxed); }
  std::uint64_t reserved_high() const noexcept { return reserved_high_.load(std::memory_order_relaxed); }
  void reset_used_high() noexcept { used_high_.store(used(), std::memory_order_relaxed); }
  void reset_reserved_high() noexcept { reserved_high_.store(reserved(), std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t step = 32u << 20;  // in which the driver's pools grow
  static std::uint64_t rounded(std::uint64_t bytes) noexcept {
    return bytes > ~std::uint64_t{0} - step ? bytes : (bytes + step - 1) / step * step;
  }
  void lower(std::uint64_t to) noexcept {
    std::uint64_t const wanted = std::max(to, rounded(held_.load(std::memory_order_relaxed)));
    std::uint64_t now = reserved_.load(std::memory_order_relaxed);
    while (now > wanted && !reserved_.compare_exchange_weak(now, wanted, std::memory_order_relaxed)) {
    }
  }
  static void raise(std::atomic<std::uint64_t>& to, std::uint64_t at_least) noexcept {
    std::uint64_t now = to.load(std::memory_order_relaxed);
    while (now < at_least && !to.compare_exchange_weak(now, at_least, std::memory_order_relaxed)) {
    }
  }

  std::atomic<std::uint64_t> used_{0}, used_high_{0}, held_{0}, reserved_{0}, reserved_high_{0};
};

}  // namespace gpumem::route
