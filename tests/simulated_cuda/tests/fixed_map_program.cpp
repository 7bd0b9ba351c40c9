// Ends with 1 when the simulated driver maps over an address that was not its own at that moment: there
// another thread's stack may have come to lie. Run by ctest; its mmap is the one that the driver calls.
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace {

int fixed = 0;    // calls that name their address
int foreign = 0;  // of these, over an address that nothing held

bool held(void* address) {
  unsigned char resident = 0;
  return mincore(address, 1, &resident) == 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* mmap(void* address, size_t bytes, int protection,
                                                             int flags, int file, off_t offset) noexcept {
  if ((flags & MAP_FIXED) != 0) {
    ++fixed;
    auto* const first = static_cast<unsigned char*>(address);
    if (!held(first) || !held(first + (bytes / 2 & ~std::size_t{4095})) || !held(first + bytes - 4096))
      ++foreign;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

int main() {
  void* block = nullptr;
  if (cudaMalloc(&block, 1 << 20) != cudaSuccess || cudaFree(block) != cudaSuccess) return 2;
  std::printf("%d fixed maps, %d of them over what nothing held\n", fixed, foreign);
  return fixed > 0 && foreign == 0 ? 0 : 1;
}
