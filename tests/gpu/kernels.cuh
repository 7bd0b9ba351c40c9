// Kernels the GPU tests share: fill, count of words that are not as expected, and a wait on the device's own
// clock, with which a kernel is still reading long after the host went on. Included by the .cu programs only.
#pragma once

#include <cstdint>

#include "tests/programs/support.hpp"

namespace gpu {

__global__ void fill(std::uint32_t* words, std::size_t count, std::uint32_t value) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    words[i] = value;
}

__device__ inline void wait_nanoseconds(unsigned long long duration) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < duration);
}

// Waits, then reads: a block that was handed to somebody else in the meantime shows.
__global__ void count_wrong(const std::uint32_t* words, std::size_t count, std::uint32_t value,
                            unsigned long long wait, unsigned long long* wrong) {
  if (wait != 0) wait_nanoseconds(wait);
  unsigned long long own = 0;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    own += reinterpret_cast<const volatile std::uint32_t*>(words)[i] != value;
  if (own != 0) atomicAdd(wrong, own);
}

inline void launch_fill(void* block, std::size_t bytes, std::uint32_t value, cudaStream_t stream) {
  fill<<<32, 256, 0, stream>>>(static_cast<std::uint32_t*>(block), bytes / 4, value);
  REQUIRE(cudaPeekAtLastError());
}

inline void launch_count(const void* block, std::size_t bytes, std::uint32_t value, unsigned long long wait,
                         unsigned long long* wrong, cudaStream_t stream) {
  count_wrong<<<32, 256, 0, stream>>>(static_cast<const std::uint32_t*>(block), bytes / 4, value, wait,
                                      wrong);
  REQUIRE(cudaPeekAtLastError());
}

// A counter in device memory; read() waits for the whole device.
class wrong_counter {
 public:
  wrong_counter() {
    REQUIRE(programs::counted_malloc(reinterpret_cast<void**>(&device_), sizeof *device_));
    REQUIRE(cudaMemset(device_, 0, sizeof *device_));
    REQUIRE(cudaDeviceSynchronize());
  }
  unsigned long long* device() { return device_; }
  unsigned long long read() {
    unsigned long long value = 0;
    REQUIRE(cudaDeviceSynchronize());
    REQUIRE(cudaMemcpy(&value, device_, sizeof value, cudaMemcpyDeviceToHost));
    return value;
  }
  void release() { REQUIRE(programs::counted_free(device_)); }

 private:
  unsigned long long* device_ = nullptr;
};

}  // namespace gpu
