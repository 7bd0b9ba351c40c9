// Wrong on purpose: a kernel writes one word behind a small block that has a neighbour. Natively nothing
// shows; under compute-sanitizer it must be reported. Used by the memcheck cases, to prove that the tool
// looks. One thread.
#include "tests/gpu/kernels.cuh"

int main() {
  void* block = nullptr;
  void* neighbour = nullptr;
  REQUIRE(cudaMalloc(&block, 1000));
  REQUIRE(cudaMalloc(&neighbour, 1000));
  gpu::launch_fill(block, 1004, 1, nullptr);
  cudaDeviceSynchronize();
  std::printf("one word too many was written\n");
}
