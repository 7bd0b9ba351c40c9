// The cost of an allocation and its free as a pair, by size from 256 B to 1 GiB: cudaMalloc + cudaFree,
// cudaMallocAsync
// + cudaFreeAsync on one stream, and cuMemAlloc + cuMemFree. Each size is measured for about 40 ms after a
// warm-up; median and mean of single pairs. No GPU work runs beside it. One thread.
#include <cuda.h>

#include <algorithm>
#include <chrono>

#include "tests/programs/support.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

template <typename pair>
void measure(const char* name, std::size_t bytes, pair run) {
  for (int i = 0; i < 10; ++i) run(bytes);
  std::vector<double> spent;
  const clock_type::time_point end = clock_type::now() + std::chrono::milliseconds(40);
  while (spent.size() < 20 || (clock_type::now() < end && spent.size() < 20000)) {
    const clock_type::time_point begin = clock_type::now();
    run(bytes);
    spent.push_back(std::chrono::duration<double, std::nano>(clock_type::now() - begin).count());
  }
  double mean = 0;
  for (double each : spent) mean += each / static_cast<double>(spent.size());
  std::nth_element(spent.begin(), spent.begin() + static_cast<std::ptrdiff_t>(spent.size() / 2), spent.end());
  const char* unit = bytes >= 1 << 30 ? "GiB" : bytes >= 1 << 20 ? "MiB" : bytes >= 1 << 10 ? "KiB" : "B";
  const std::size_t scale = bytes >= 1 << 30   ? 1 << 30
                            : bytes >= 1 << 20 ? 1 << 20
                            : bytes >= 1 << 10 ? 1 << 10
                                               : 1;
  std::printf("time: %s %zu %s, median %.0f ns\n", name, bytes / scale, unit, spent[spent.size() / 2]);
  std::printf("time: %s %zu %s, mean %.0f ns\n", name, bytes / scale, unit, mean);
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const std::size_t sizes[] = {256,     4 << 10,  64 << 10,  1 << 20,
                               2 << 20, 16 << 20, 256 << 20, std::size_t{1} << 30};
  for (std::size_t bytes : sizes) {
    measure("cudaMalloc", bytes, [](std::size_t size) {
      void* block = nullptr;
      REQUIRE(cudaMalloc(&block, size));
      REQUIRE(cudaFree(block));
    });
    measure("cudaMallocAsync", bytes, [stream](std::size_t size) {
      void* block = nullptr;
      REQUIRE(cudaMallocAsync(&block, size, stream));
      REQUIRE(cudaFreeAsync(block, stream));
    });
    measure("cuMemAlloc", bytes, [](std::size_t size) {
      CUdeviceptr block = 0;
      REQUIRE(cuMemAlloc(&block, size));
      REQUIRE(cuMemFree(block));
    });
  }
  REQUIRE(cudaDeviceSynchronize());
  std::printf("measured\n");
}
