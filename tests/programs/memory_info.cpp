// What cudaMemGetInfo says around allocations and frees of large blocks: free goes down by the block and
// comes back by it, never exceeds the total, and a block as large as three quarters of what is free can be
// had and had again. Run plain and preloaded by the integration and GPU tests, alone on its device. One
// thread.
#include "tests/programs/support.hpp"

namespace {

using namespace programs;

struct info {
  std::size_t free = 0;
  std::size_t total = 0;
};

info ask() {
  info now;
  REQUIRE(cudaMemGetInfo(&now.free, &now.total));
  REQUIRE_CODE(now.free <= now.total, true);
  return now;
}

long long mib(std::size_t from, std::size_t to) {
  return (static_cast<long long>(from) - static_cast<long long>(to)) / (1 << 20);
}

}  // namespace

int main() {
  REQUIRE(cudaSetDevice(0));
  void* warm_up = nullptr;
  REQUIRE(counted_malloc(&warm_up, 2 << 20));
  REQUIRE(counted_free(warm_up));
  REQUIRE(cudaDeviceSynchronize());
  const info start = ask();
  std::vector<void*> blocks(4);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t bytes = (64u << 20) << i;
    REQUIRE(counted_malloc(&blocks[i], bytes));
    std::printf("after %zu MiB more, free is down by %lld MiB\n", bytes >> 20, mib(start.free, ask().free));
  }
  for (void* block : blocks) {
    REQUIRE(counted_free(block));
    std::printf("after a free, free is down by %lld MiB\n", mib(start.free, ask().free));
  }
  for (int round = 0; round < 3; ++round) {
    const std::size_t most = (start.free / 4 * 3) & ~((std::size_t{2} << 20) - 1);
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, most));
    const long long error = mib(start.free, ask().free) - static_cast<long long>(most >> 20);
    std::printf("three quarters of free: had, and free is down by them to %lld MiB\n", error);
    REQUIRE(counted_free(block));
  }
  std::printf("at the end free is down by %lld MiB\n", mib(start.free, ask().free));
  counts.print();
}
