// Every size from 1 to 4097 bytes and sizes around powers of two, in all ways of allocating: how each block
// is aligned, and that it shares no byte with another live one. Code relies on 256 bytes (textures, tensor
// maps); the driver gives 512. Run plain and preloaded by the integration and GPU tests. One thread.
#include <algorithm>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

struct piece {
  std::uint64_t begin = 0;
  std::size_t bytes = 0;
  bool operator<(const piece& other) const { return begin < other.begin; }
};

template <typename Allocate, typename Free>
void try_all(const char* what, Allocate allocate, Free release) {
  std::vector<piece> pieces;
  auto take = [&](std::size_t bytes) {
    void* block = nullptr;
    REQUIRE(allocate(&block, bytes));
    pieces.push_back({reinterpret_cast<std::uint64_t>(block), bytes});
  };
  for (std::size_t bytes = 1; bytes <= 4097; bytes += bytes % 512 < 3 || bytes % 512 > 509 ? 1 : 7)
    take(bytes);
  for (unsigned power = 13; power < 24; ++power) {
    for (int offset = -1; offset <= 1; ++offset)
      take((std::size_t{1} << power) + static_cast<std::size_t>(offset));
  }
  std::sort(pieces.begin(), pieces.end());
  int crooked = 0;
  int overlapping = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    crooked += pieces[i].begin % 512 != 0;
    overlapping += i != 0 && pieces[i - 1].begin + pieces[i - 1].bytes > pieces[i].begin;
  }
  std::printf("%s: %zu blocks, %d not aligned to 512 bytes, %d overlapping\n", what, pieces.size(), crooked,
              overlapping);
  for (const piece& each : pieces) REQUIRE(release(reinterpret_cast<void*>(each.begin)));
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int round = 0; round < 2; ++round) {  // fresh memory, and memory used before
    try_all("cudaMalloc", counted_malloc, counted_free);
    try_all(
        "cudaMallocAsync", [&](void** out, std::size_t n) { return counted_malloc_async(out, n, stream); },
        [&](void* block) { return counted_free_async(block, stream); });
    REQUIRE(cudaStreamSynchronize(stream));
  }
  counts.print();
}
