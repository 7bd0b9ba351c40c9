// Monotonic time in nanoseconds, the one clock of every figure that gpumem prints.
// Called from any thread, on hot paths too; never the wall clock, which may jump.
#pragma once

#include <time.h>

#include <cstdint>

namespace gpumem::base {

inline std::uint64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace gpumem::base
