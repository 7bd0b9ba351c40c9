// The list of workloads, one function and one file each. A workload times one allocator and emits result
// lines. The one with kernels of its own is only in programs that nvcc built.
#pragma once

#include "tests/bench/workloads/support.hpp"

namespace bench {

struct options {
  double seconds = 0.04;          // for each timed figure
  std::size_t bytes = 0;          // the only size of pairs; 0: all of them
  std::size_t largest = 1000000;  // holes or allocations swept up to this
  int from = 1, threads = 16;     // swept from and up to this
  const char* only = "";          // of `threads`: kinds of work whose name contains it
  std::uint64_t seed = 0;         // of footprint: other sizes, and another order
};

void pairs(allocator& memory, const options& wanted);
void random_allocations(allocator& memory, const options& wanted);
void holes(allocator& memory, const options& wanted);
void threads(allocator& memory, const options& wanted);
void producer_consumer(allocator& memory, const options& wanted);
void growth(allocator& memory, const options& wanted);
void captures(allocator& memory, const options& wanted);
void pinned(allocator& memory, const options& wanted);
void driver_calls(allocator& memory, const options& wanted);
void calls(allocator& memory, const options& wanted);
void lookups(allocator& memory, const options& wanted);
void footprint(allocator& memory, const options& wanted);
void refused(allocator& memory, const options& wanted);
void drift(allocator& memory, const options& wanted);
void budget(allocator& memory, const options& wanted);
void first_call(allocator& memory, const options& wanted);
void multi_stream(allocator& memory, const options& wanted);
void concurrency(allocator& memory, const options& wanted);

}  // namespace bench
