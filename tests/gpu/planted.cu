// planted none|race|uninitialised|barrier|overrun: a small program with one fault of its kind for each tool
// of compute-sanitizer to find, or none; also what cuda-gdb stops in and ncu measures. Allocates and frees
// before and after, so that a cache of memory is at work. Built with device debug information. One thread.
#include <cstring>

#include "tests/programs/support.hpp"

namespace {

__device__ int sum_of(int left, int right) {
  return left + right;
}

__global__ void add(int* out, const int* in, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) out[at] = sum_of(in[at], at);
}

// Every thread reads its neighbour's word with no barrier between.
__global__ void race(int* out) {
  __shared__ int words[64];
  words[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = words[(threadIdx.x + 33) % 64];
}

// Lanes that are not among those that the barrier names.
__global__ void barrier(int* out) {
  if (threadIdx.x % 32 < 16) __syncwarp(0xffff0000u);
  out[threadIdx.x] = 1;
}

void* block_of(std::size_t bytes) {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, bytes));
  return block;
}

}  // namespace

int main(int count, char** arguments) {
  const char* const fault = count > 1 ? arguments[1] : "none";
  constexpr int words = 1000;
  long total = 0;
  for (int round = 0; round < 3; ++round) {
    int* const in = static_cast<int*>(block_of(words * sizeof(int)));
    int* const out = static_cast<int*>(block_of(words * sizeof(int)));
    REQUIRE(cudaMemset(in, 0, words * sizeof(int)));
    add<<<8, 128>>>(out, in, words);
    std::vector<int> host(words);
    REQUIRE(cudaMemcpy(host.data(), out, words * sizeof(int), cudaMemcpyDeviceToHost));
    for (const int each : host) total += each;
    REQUIRE(cudaFree(in));
    REQUIRE(cudaFree(out));
  }
  // Of a size that nobody has used yet: what was written before would be no fault.
  int* const out = static_cast<int*>(block_of(3 << 20));
  if (std::strcmp(fault, "race") == 0) race<<<1, 64>>>(out);
  if (std::strcmp(fault, "barrier") == 0) barrier<<<1, 64>>>(out);
  if (std::strcmp(fault, "uninitialised") == 0) add<<<1, 64>>>(out, out + 100'000, 64);
  if (std::strcmp(fault, "overrun") == 0) add<<<1, 64>>>(out + (3 << 18) - 10, out, 64);
  const cudaError_t code = cudaDeviceSynchronize();
  std::printf("total %ld, %s: %s\n", total, fault, cudaGetErrorName(code));
  (void)cudaFree(out);
}
