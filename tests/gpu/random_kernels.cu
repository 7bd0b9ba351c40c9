// The kernels of the random program on a GPU (device_work_kernels.cpp): stamp a block, and look whether the
// stamp is still there, both after a wait on the device's clock, in which a block that was handed to somebody
// else shows. Compiled to a file of machine code that the program holds, as it loads them into contexts that
// come and go.
#include <cstdint>

struct found_words {
  unsigned long long count;
  unsigned long long address;  // of the first
  unsigned int wanted, seen;
};
extern "C" {
__device__ found_words found;
}

__device__ void wait_nanoseconds(unsigned long long duration) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < duration);
}

extern "C" __global__ void stamp(std::uint32_t* words, unsigned long long count, std::uint32_t value,
                                 unsigned long long wait) {
  if (wait != 0) wait_nanoseconds(wait);
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    words[i] = value;
}

extern "C" __global__ void look(std::uint32_t const* words, unsigned long long count, std::uint32_t value,
                                unsigned long long wait) {
  if (wait != 0) wait_nanoseconds(wait);
  unsigned long long own = 0;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    std::uint32_t const seen = reinterpret_cast<std::uint32_t const volatile*>(words)[i];
    if (seen == value) continue;
    if (own++ == 0 && atomicCAS(&found.address, 0ull, reinterpret_cast<unsigned long long>(words + i)) == 0) {
      found.wanted = value;
      found.seen = seen;
    }
  }
  if (own != 0) atomicAdd(&found.count, own);
}
