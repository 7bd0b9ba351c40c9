// What is remembered of a thread's Python frames from one sample to the next: where in memory they were, and
// the place that a loop is at. By the thread's number among the counters, as static TLS is scarce. Used by
// samples, on the thread itself.
#pragma once

#include <cstdint>

#include "core/base/own_memory_pieces.hpp"

namespace gpumem::stats {

struct thread_memory {
  std::uint64_t owner = 0;  // the thread's identity
  base::own_memory_pieces::places frames;
  // The native code, the place in Python code, when that was asked for, how many times it was the same, and
  // how many samples from now on need not ask.
  std::uint64_t native = 0, place = 0, asked_ns = 0;
  int same = 0, left = 0;
};

// Null: it has no memory of its own, as of the 128th thread on.
thread_memory* memory_of_this_thread() noexcept;

}  // namespace gpumem::stats
