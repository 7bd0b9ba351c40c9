// See device_work.hpp. Stamps of small blocks are real bytes, which the program compares; of others only the
// access counts.
#include <cstdio>

#include "tests/integration/random/device_work.hpp"
#include "tests/integration/random/ledger_check.hpp"
#include "tests/integration/random/world.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace random_program {

bool device_work::on_a_gpu() {
  return false;
}
void device_work::prepare() {}
void device_work::open() {}
void device_work::close() {}

CUresult device_work::stamp(block const& b, CUstream on, unsigned nanoseconds) {
  if (b.is_checked()) return cuMemsetD32Async(b.address, b.stamp, b.bytes / 4, on);
  simulated_access const access{b.address, b.bytes, 1};
  return simulatedLaunch(on, &access, 1, nanoseconds);
}

CUresult device_work::look(block const& b, CUstream on, unsigned nanoseconds) {
  if (b.of_graph) return CUDA_SUCCESS;  // the checker knows no block of a graph
  simulated_access const access{b.address, b.bytes, 0};
  return simulatedLaunch(on, &access, 1, nanoseconds);
}

void device_work::took(block const& b, CUstream on) {
  simulatedNoteAllocate(b.address, b.bytes, on);
}
void device_work::gives(block const& b, CUstream on) {
  simulatedNoteFree(b.address, on);
}
void device_work::gave_not(block const& b) {
  simulatedNoteFreeRefused(b.address);
}

void device_work::settled(char const* when) {
  int devices = 0;
  CHECK(cuDeviceGetCount(&devices));
  check_ledger(devices, when);
}

unsigned long long device_work::waits() {
  return simulatedHostWaits();
}

unsigned long long device_work::wrong() {
  return simulatedHazardCount();
}
void device_work::describe_wrong() {
  for (unsigned long long i = 0; i < wrong() && i < 5; ++i) std::printf("%s\n", simulatedHazardText(i));
}

}  // namespace random_program
