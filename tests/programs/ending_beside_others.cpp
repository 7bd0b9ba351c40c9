// A context ends while threads in another context of its device ask for memory that the device can only have
// once the first one's is back. A library that keeps freed memory gives it back for that request, from the
// context that ends. Either answer to the request is right. The number of rounds is the argument.
#include <cuda.h>

#include <atomic>
#include <cstdlib>
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

}  // namespace

int main(int argc, char** argv) {
  int const rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  CUdevice device = 0;
  CUcontext mine = nullptr;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  REQUIRE(cuCtxCreate(&mine, nullptr, 0, device));
  REQUIRE(cuMemGetInfo(&free_bytes, &total));
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
  REQUIRE(cuCtxDestroy(mine));
  std::puts("each context ended");
}
