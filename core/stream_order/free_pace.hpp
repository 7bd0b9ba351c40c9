// How far a program's frees run ahead of the GPU. cudaFree natively waits for the GPU; ours does not, and
// the wait is the next request's that finds nothing else, where natively none is. Once a request had to wait
// so, frees keep the pace: after each step of so many bytes, and some blocks, one of them waits for the work
// before the step before, so that the GPU is never out of work. Off again when the GPU keeps up. One for each
// context. Any thread. begin() makes no call, so that a request may hold its locks; note() asks the driver,
// with no lock held, no capture under way, and without cancellation.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpumem::stream_order {

class epochs;

class free_pace {
 public:
  explicit free_pace(epochs& of) noexcept : epochs_(of) {}

  // From now on at most about `bytes` of what is freed may wait for the GPU; or, where not `by_bytes`, a few
  // blocks if those are more.
  void begin(std::uint64_t bytes, bool by_bytes) noexcept;
  // Whether note() has anything to do: a free of so many bytes is part of a step, or the pace is off.
  bool counts(std::uint64_t bytes) const noexcept {
    std::uint64_t const step = step_.load(std::memory_order_relaxed);
    return step == 0 || bytes >= step / small_part;
  }
  // Off, as if it had never begun.
  void end() noexcept { step_.store(0, std::memory_order_relaxed); }
  enum class noted : std::uint8_t { off, on, step };  // off, or over; a step that ended
  // After a free of so many bytes.
  noted note(std::uint64_t bytes) noexcept;
  bool is_on() const noexcept { return step_.load(std::memory_order_relaxed) != 0; }

 private:
  // A kernel may run for ever while the host frees memory, which natively would wait for ever.
  static constexpr std::uint64_t longest_wait_ns = 20'000'000;
  static constexpr std::uint32_t idle_steps = 16;  // in a row that end it
  // So many blocks at least between two marks, each the work of a kernel or more, unless they are very large.
  // Measured (H100): with kernels of 20 us on four streams, eight keep the GPU at work.
  static constexpr std::uint32_t least_blocks = 8;
  static constexpr std::uint64_t very_large = 4;   // steps
  static constexpr std::uint64_t small_part = 64;  // of a step; smaller blocks are not counted

  epochs& epochs_;
  std::atomic<std::uint64_t> step_{0};   // bytes between two marks; 0: off
  std::atomic<std::uint64_t> freed_{0};  // bytes since the last mark
  std::atomic<std::uint32_t> blocks_{0};
  std::atomic<bool> by_bytes_{false};
  std::atomic<std::uint32_t> mark_{0};  // an epoch: of what was freed before it
  std::atomic<std::uint32_t> idle_{0};  // steps that found the GPU done
};

}  // namespace gpumem::stream_order
