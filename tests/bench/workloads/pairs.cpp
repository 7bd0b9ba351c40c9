// Latency of an allocation and its free right after it, by size from 256 B to 1 GiB, no GPU work beside it.
// One thread.
#include "tests/bench/workloads/workloads.hpp"

void bench::pairs(allocator& memory, const options& wanted) {
  const stream own;
  for (std::size_t bytes : {std::size_t{256}, std::size_t{4} << 10, std::size_t{64} << 10,
                            std::size_t{1} << 20, std::size_t{2} << 20, std::size_t{16} << 20,
                            std::size_t{64} << 20, std::size_t{256} << 20, std::size_t{1} << 30}) {
    const double each = median_of_batches(
        wanted.seconds * 1e9, [&] { memory.free(memory.allocate(bytes, own.get()), bytes, own.get()); });
    emit("pairs", size_name(bytes), "pair", each, "ns");
  }
}
