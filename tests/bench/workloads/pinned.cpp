// cudaMallocHost + cudaFreeHost by size: page-locked host memory, which natively costs a millisecond. The
// allocator is not asked. One thread.
#include "tests/bench/workloads/workloads.hpp"

void bench::pinned(allocator&, const options& wanted) {
  for (std::size_t bytes : {std::size_t{4} << 10, std::size_t{1} << 20, std::size_t{64} << 20}) {
    const double each = median_of_batches(wanted.seconds * 1e9, [&] {
      void* block = nullptr;
      REQUIRE(cudaMallocHost(&block, bytes));
      REQUIRE(cudaFreeHost(block));
    });
    emit("pinned", size_name(bytes), "pair", each / 1e3, "us");
  }
}
