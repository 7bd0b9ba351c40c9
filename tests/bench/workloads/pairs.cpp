// Latency of an allocation and its free right after it, by size from 256 B to 1 GiB, no GPU work beside it.
// bytes=N: of that size alone; gpumem's report then tells what is reserved for it. One thread.
#include "tests/bench/workloads/workloads.hpp"

void bench::pairs(allocator& memory, const options& wanted) {
  const stream own;
  std::vector<std::size_t> sizes{256,      4 << 10,  64 << 10,  1 << 20, 2 << 20,
                                 16 << 20, 64 << 20, 256 << 20, 1 << 30};
  if (wanted.bytes != 0) sizes = {wanted.bytes};
  for (const std::size_t bytes : sizes) {
    const double each = median_of_batches(
        wanted.seconds * 1e9, [&] { memory.free(memory.allocate(bytes, own.get()), bytes, own.get()); });
    emit("pairs", size_name(bytes), "pair", each, "ns");
  }
}
