// The first CUDA call of a process, by argument: free0 (the idiom cudaFree(0)), malloc0, malloc, async, info,
// reset, bad_free, too_big, host, cu_alloc (before cuInit), cu_free (before cuInit). Prints its code and the
// last error, then does a little work. Run plain and preloaded by the integration and GPU tests. One thread.
#include <cuda.h>

#include <cstring>

#include "tests/programs/support.hpp"

namespace {

int first(const char* which) {
  void* block = nullptr;
  std::size_t free = 0;
  std::size_t total = 0;
  CUdeviceptr address = 0;
  if (std::strcmp(which, "free0") == 0) return cudaFree(nullptr);
  if (std::strcmp(which, "malloc0") == 0) return cudaMalloc(&block, 0);
  if (std::strcmp(which, "malloc") == 0) return cudaMalloc(&block, 1000);
  if (std::strcmp(which, "async") == 0) return cudaMallocAsync(&block, 1000, nullptr);
  if (std::strcmp(which, "info") == 0) return cudaMemGetInfo(&free, &total);
  if (std::strcmp(which, "reset") == 0) return cudaDeviceReset();
  if (std::strcmp(which, "bad_free") == 0) return cudaFree(reinterpret_cast<void*>(0x7000000));
  if (std::strcmp(which, "too_big") == 0) return cudaMalloc(&block, std::size_t{1} << 60);
  if (std::strcmp(which, "host") == 0) return cudaMallocHost(&block, 1000);
  if (std::strcmp(which, "cu_alloc") == 0) return cuMemAlloc(&address, 1000);
  if (std::strcmp(which, "cu_free") == 0) return cuMemFree(0x7000000);
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace programs;
  const int code = first(argc > 1 ? argv[1] : "free0");
  const int last = code < 0 ? 0 : cudaPeekAtLastError();
  const int taken = cudaGetLastError();
  std::printf("first call: %d, last error %d, then %d, then %d\n", code, last, taken, cudaGetLastError());
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 1 << 20));
  REQUIRE(cudaMemset(block, 7, 1 << 20));
  checksum sum;
  verify_fill(block, 1 << 20, 7, sum);
  REQUIRE(cudaFree(block));
  std::printf("checksum %016llx\n", (unsigned long long)sum.value());
}
