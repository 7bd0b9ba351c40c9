// A thread whose current context goes away under the runtime: cuCtxSetCurrent(null), cuCtxPopCurrent, a
// thread that never had one. The runtime makes the primary context current at its next call, a cudaFree
// included, and driver calls that follow rely on it. Prints who has a context when. Run plain and preloaded
// by the integration and GPU tests. Two threads.
#include <cuda.h>

#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void show(const char* what, int code) {
  CUcontext current = nullptr;
  cuCtxGetCurrent(&current);
  std::printf("%-40s %d, a context: %d\n", what, code, current != nullptr);
}

}  // namespace

int main() {
  void* blocks[8];
  for (void*& block : blocks) REQUIRE(cudaMalloc(&block, 4096));
  CUcontext primary = nullptr;
  REQUIRE(cuCtxGetCurrent(&primary));

  show("cuCtxSetCurrent(null)", cuCtxSetCurrent(nullptr));
  show("cudaFree", cudaFree(blocks[0]));
  show("cuMemFree", cuMemFree(reinterpret_cast<CUdeviceptr>(blocks[1])));
  show("cudaFree", cudaFree(blocks[2]));

  CUcontext popped = nullptr;
  show("cuCtxPopCurrent", cuCtxPopCurrent(&popped));
  show("cudaFree", cudaFree(blocks[3]));
  show("cuCtxPushCurrent", cuCtxPushCurrent(primary));
  show("cuCtxPopCurrent", cuCtxPopCurrent(&popped));
  show("cudaFree", cudaFree(blocks[4]));

  show("cuCtxSetCurrent(null)", cuCtxSetCurrent(nullptr));
  show("cudaMalloc", cudaMalloc(&blocks[0], 4096));
  show("cudaFree", cudaFree(blocks[0]));

  std::thread([&] {
    show("cuMemFree in a thread of its own", cuMemFree(reinterpret_cast<CUdeviceptr>(blocks[5])));
    show("cudaFree", cudaFree(blocks[6]));
    show("cudaFree", cudaFree(blocks[7]));
  }).join();
}
