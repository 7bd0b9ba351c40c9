// A context ends while threads in another context of its device ask for memory that the device can only have
// once the first one's is back. A library that keeps freed memory gives it back for that request, from the
// context that ends. Modes: `ends`: either answer to the request is right; `look`: a thread retains and
// releases the primary context, as libraries do to look at it, which ends nothing: each request is to be
// served. The number of rounds is the second argument.
#include <cuda.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

// Takes and frees `blocks` blocks in a context of its own, which then ends.
void come_and_go(CUdevice device, std::size_t bytes, int blocks) {
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
  for (int i = 0; i < blocks; ++i) {
    CUdeviceptr block = 0;
    if (cuMemAlloc(&block, bytes) != CUDA_SUCCESS) break;
    REQUIRE(cuMemFree(block));
    bytes += 2 << 20;
  }
  REQUIRE(cuCtxDestroy(context));
}

void ends(CUdevice device, CUcontext mine, std::size_t total, int rounds) {
  std::atomic<bool> stop{false};
  std::thread others[3];
  for (std::thread& each : others)
    each = std::thread([&] {
      REQUIRE(cuCtxSetCurrent(mine));
      while (!stop) {
        CUdeviceptr block = 0;
        CUresult const code = cuMemAlloc(&block, total / 100 * 85);
        if (code == CUDA_SUCCESS) {
          REQUIRE(cuMemFree(block));
        } else if (code != CUDA_ERROR_OUT_OF_MEMORY) {
          REQUIRE(code);
        }
      }
    });
  for (int i = 0; i < rounds; ++i) come_and_go(device, total / 100 * 3, 8);
  stop = true;
  for (std::thread& each : others) each.join();
  std::puts("each context ended");
}

void look(CUdevice device, CUcontext mine, std::size_t total, int rounds) {
  CUcontext primary = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, device));
  std::atomic<bool> stop{false};
  std::thread looker([&] {
    while (!stop) {
      CUcontext again = nullptr;
      REQUIRE(cuDevicePrimaryCtxRetain(&again, device));
      REQUIRE(cuDevicePrimaryCtxRelease(device));
    }
  });
  int refused = 0;
  for (int i = 0; i < rounds; ++i) {
    CUdeviceptr blocks[8] = {};
    REQUIRE(cuCtxSetCurrent(primary));
    for (CUdeviceptr& each : blocks) REQUIRE(cuMemAlloc(&each, total / 100 * 5));
    for (CUdeviceptr const each : blocks) REQUIRE(cuMemFree(each));
    REQUIRE(cuCtxSetCurrent(mine));
    CUdeviceptr large = 0;
    if (cuMemAlloc(&large, total / 100 * 85) == CUDA_SUCCESS) {
      REQUIRE(cuMemFree(large));
    } else {
      ++refused;
    }
  }
  stop = true;
  looker.join();
  std::printf("%d requests were refused\n", refused);
  REQUIRE(cuDevicePrimaryCtxRelease(device));
}

}  // namespace

int main(int argc, char** argv) {
  bool const looks = argc > 1 && std::strcmp(argv[1], "look") == 0;
  int const rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  CUdevice device = 0;
  CUcontext mine = nullptr;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  REQUIRE(cuCtxCreate(&mine, nullptr, 0, device));
  REQUIRE(cuMemGetInfo(&free_bytes, &total));
  (looks ? look : ends)(device, mine, total, rounds);
  REQUIRE(cuCtxDestroy(mine));
}
