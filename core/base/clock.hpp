// Monotonic time in nanoseconds, the one clock of every figure that gpumem prints, and of every wait that
// must end. Called from any thread, on hot paths too; never the wall clock, which may jump, and from the
// start of the library on no clock of the program's (libfaketime and simulators have one), which may stand
// still.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace gpumem::base {

// libc's own once the library has found it.
inline constinit std::atomic<int (*)(clockid_t, timespec*)> ask_clock{&::clock_gettime};

inline std::uint64_t now_ns() noexcept {
  timespec now{};
  ask_clock.load(std::memory_order_relaxed)(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

// The processor's own counter, of no known unit: a few instructions, to tell that some time has gone by.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  return now_ns();
#endif
}

}  // namespace gpumem::base
