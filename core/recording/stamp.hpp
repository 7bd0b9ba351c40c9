// The clock of a recording: the processor's counter where all processors have one, else the monotonic clock.
// Its ticks order events of different threads. A processor looks ahead: it reads the counter before the load
// in front of it has its value (measured: up to 581 ticks), unless it is told not to, which takes as long as
// an event otherwise. So a block passes its last stamp on to whoever has it next. Any thread, on paths that
// record; no lock.
#pragma once

#include <cstdint>

#include "core/base/clock.hpp"

namespace gpumem::recording {

// The counters of all processors run alike and together.
bool has_common_counter() noexcept;

// About now. What it says of two threads may be the wrong way round, where they are closer than a look ahead.
inline std::uint64_t stamp_about_now(bool monotonic) noexcept {
  return monotonic ? base::now_ns() : base::ticks();
}

// Read when all earlier loads have their values, and before any later store can be seen.
inline std::uint64_t stamp_now(bool monotonic) noexcept {
  if (monotonic) return base::now_ns();
#if defined(__x86_64__)
  unsigned processor = 0;
  return __builtin_ia32_rdtscp(&processor);
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
  return base::ticks();
#else
  return base::ticks();
#endif
}

}  // namespace gpumem::recording
