// The clock of a recording: the processor's counter where all processors have one, else the monotonic clock.
// Its ticks order events of different threads: a stamp before a store that gives memory away is not later
// than a stamp after the load that got it. Both ways a processor must not look ahead: it reads a counter
// before the load in front of it has its value (measured: up to 581 ticks). Any thread, on paths that record;
// no lock.
#pragma once

#include <cstdint>

#include "core/base/clock.hpp"

namespace gpumem::recording {

// The counters of all processors run alike and together.
bool has_common_counter() noexcept;

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
