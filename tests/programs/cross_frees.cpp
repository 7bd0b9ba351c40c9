// Blocks freed by the other way, thread or device: cudaMalloc or cudaMallocAsync, then cudaFree or
// cudaFreeAsync, each by the same thread, by another one, and cudaFree with another device current. Prints
// the codes. Run plain and preloaded by the integration and GPU tests; uses device 1 where there is one. Two
// threads.
#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void* make(bool ordered, std::size_t bytes) {
  void* block = nullptr;
  REQUIRE(ordered ? counted_malloc_async(&block, bytes, nullptr) : counted_malloc(&block, bytes));
  REQUIRE(cudaMemset(block, 9, bytes));
  REQUIRE(cudaDeviceSynchronize());
  return block;
}

int drop(void* block, bool ordered) {
  return ordered ? counted_free_async(block, nullptr) : counted_free(block);
}

}  // namespace

int main() {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  for (int made = 0; made < 2; ++made) {
    for (int freed = 0; freed < 2; ++freed) {
      for (std::size_t bytes : {std::size_t{700}, std::size_t{3} << 20}) {
        int codes[3] = {};
        codes[0] = drop(make(made != 0, bytes), freed != 0);
        void* block = make(made != 0, bytes);
        std::thread([&] { codes[1] = drop(block, freed != 0); }).join();
        block = make(made != 0, bytes);
        if (devices > 1 && freed == 0) REQUIRE(cudaSetDevice(1));
        codes[2] = drop(block, freed != 0);
        REQUIRE(cudaSetDevice(0));
        std::printf("made %s, freed %s, %zu bytes: %d %d %d\n", made != 0 ? "in order" : "plainly",
                    freed != 0 ? "in order" : "plainly", bytes, codes[0], codes[1], codes[2]);
        REQUIRE(cudaDeviceSynchronize());
      }
    }
  }
  std::printf("last error %d\n", cudaGetLastError());
  counts.print();
}
