// Exports blocks by legacy IPC handles, frees them while an importer may still have them open, and asks for
// more of the same sizes in both ways: says how many of the new blocks share an address with an exported one.
// Natively the driver may use them again at once, so only the preloaded run is judged (unrouted.py). One
// thread.
#include "tests/programs/support.hpp"

int main() {
  using namespace programs;
  struct range {
    char* base;
    std::size_t bytes;
  };
  std::vector<range> exported;
  for (const std::size_t bytes : {std::size_t{1000}, std::size_t{70'000}, std::size_t{3} << 20}) {
    for (int i = 0; i < 3; ++i) {
      void* block = nullptr;
      REQUIRE(cudaMalloc(&block, bytes));
      cudaIpcMemHandle_t handle;
      REQUIRE(cudaIpcGetMemHandle(&handle, block));
      exported.push_back({static_cast<char*>(block), bytes});
    }
  }
  for (const range& each : exported) REQUIRE(cudaFree(each.base));
  REQUIRE(cudaDeviceSynchronize());
  int shared = 0;
  for (int round = 0; round < 40; ++round) {
    for (const range& each : exported) {
      void* block = nullptr;
      REQUIRE(round % 2 == 0 ? cudaMalloc(&block, each.bytes) : cudaMallocAsync(&block, each.bytes, nullptr));
      auto* const at = static_cast<char*>(block);
      for (const range& old : exported) shared += at < old.base + old.bytes && old.base < at + each.bytes;
    }
  }
  std::printf("%d blocks share an address with exported memory\n", shared);
}
