// Fills a device until it is full, as greedy programs do, gives half back and takes it again: the code is 2,
// the last error 2 and then 0, and the memory that was freed can be had, also as one block. Stream-ordered as
// well. Run plain and preloaded by the integration and GPU tests, alone on its device. One thread.
#include "tests/programs/support.hpp"

namespace {

using namespace programs;

template <typename Allocate, typename Free>
void fill(const char* what, Allocate allocate, Free release) {
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total));
  const std::size_t bytes = (free / 20) & ~((std::size_t{2} << 20) - 1);
  std::vector<void*> blocks;
  int code = 0;
  while (blocks.size() < 25) {
    void* block = nullptr;
    code = allocate(&block, bytes);
    if (code != 0) break;
    blocks.push_back(block);
  }
  const int last = cudaGetLastError();
  const int then = cudaGetLastError();
  std::printf("%s: %s, code %d, last error %d, then %d\n", what,
              blocks.size() >= 18 ? "filled" : "not filled", code, last, then);
  for (std::size_t i = 0; i < 10; ++i) {
    REQUIRE(release(blocks.back()));
    blocks.pop_back();
  }
  REQUIRE(cudaDeviceSynchronize());
  void* large = nullptr;
  REQUIRE(allocate(&large, 9 * bytes));
  REQUIRE(cudaMemset(large, 5, 4096));
  REQUIRE(release(large));
  REQUIRE(cudaDeviceSynchronize());
  for (int i = 0; i < 9; ++i) {
    void* block = nullptr;
    REQUIRE(allocate(&block, bytes));
    blocks.push_back(block);
  }
  for (void* block : blocks) REQUIRE(release(block));
  REQUIRE(cudaDeviceSynchronize());
}

}  // namespace

int main() {
  fill(
      "cudaMalloc", [](void** out, std::size_t n) { return cudaMalloc(out, n); },
      [](void* block) { return cudaFree(block); });
  fill(
      "cudaMallocAsync", [](void** out, std::size_t n) { return cudaMallocAsync(out, n, nullptr); },
      [](void* block) { return cudaFreeAsync(block, nullptr); });
  fill(
      "cudaMalloc again", [](void** out, std::size_t n) { return cudaMalloc(out, n); },
      [](void* block) { return cudaFree(block); });
}
