// Whether calls of the CUDA runtime may be answered in our hooks of it, without calling it. Asked at each
// of them, on any thread.
#pragma once

#include <atomic>

namespace gpumem::shim {

// Set once and for good: at the process's exit, when a profiler asks to see the runtime's calls, and when a
// library is seen that wraps them.
inline constinit std::atomic<bool> all_calls_are_the_runtimes{false};

inline void leave_all_calls_to_runtime() noexcept {
  all_calls_are_the_runtimes.store(true, std::memory_order_relaxed);
}

}  // namespace gpumem::shim
