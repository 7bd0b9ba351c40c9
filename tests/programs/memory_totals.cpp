// All calls that tell how much memory a device has, before and after allocations, with all devices; and that
// cudaMemGetInfo moves by no more and no less than what is allocated, many small blocks together. Run plain
// and preloaded by the integration and GPU tests, alone on its devices. One thread.
#include <cuda.h>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

std::size_t free_now(std::size_t device_total) {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free_bytes, &total));
  REQUIRE_CODE(total, device_total);
  REQUIRE_CODE(free_bytes <= total, true);
  return free_bytes;
}

void one_device(int device) {
  REQUIRE(cudaSetDevice(device));
  REQUIRE(cudaFree(nullptr));
  cudaDeviceProp properties{};
  std::size_t total = 0;
  REQUIRE(cudaGetDeviceProperties(&properties, device));
  REQUIRE(cuDeviceTotalMem(&total, device));
  // What the device keeps for itself is in the one figure and not in the other on some drivers.
  std::size_t free_bytes = 0;
  std::size_t seen = 0;
  REQUIRE(cudaMemGetInfo(&free_bytes, &seen));
  std::printf("device %d: properties and cuDeviceTotalMem agree: %d, cudaMemGetInfo is at most that: %d\n",
              device, properties.totalGlobalMem == total, seen <= total);
  constexpr std::size_t piece = 2 << 20;
  constexpr int pieces = 200;
  std::vector<void*> blocks(pieces);
  std::size_t before = free_now(seen);
  const std::size_t start = before;
  bool falls = true;
  for (void*& block : blocks) {
    REQUIRE(counted_malloc(&block, piece));
    const std::size_t now = free_now(seen);
    falls = falls && now <= before;
    before = now;
  }
  std::printf("free never rises while allocating: %d, is down by %zu MiB\n", falls, (start - before) >> 20);
  bool rises = true;
  for (void* block : blocks) {
    REQUIRE(counted_free(block));
    const std::size_t now = free_now(seen);
    rises = rises && now >= before;
    before = now;
  }
  std::printf("free never falls while freeing: %d, all is back: %d\n", rises, before >= start);
}

}  // namespace

int main() {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  for (int device = 0; device < devices; ++device) one_device(device);
  counts.print();
}
