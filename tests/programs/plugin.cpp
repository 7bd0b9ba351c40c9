// A plugin that uses CUDA, with a runtime of its own inside or a shared one: plugin_host opens it in various
// ways. Linked to cudart like any program. One thread.
#include "tests/programs/support.hpp"

extern "C" __attribute__((visibility("default"))) int plugin_work(int blocks) {
  using namespace programs;
  checksum sum;
  void* kept[4] = {};
  for (int round = 0; round < blocks; ++round) {
    void*& slot = kept[round % 4];
    if (slot != nullptr) REQUIRE(counted_free(slot));
    const std::size_t bytes = 1000u << (round % 10);
    REQUIRE(counted_malloc(&slot, bytes));
    REQUIRE(cudaMemset(slot, round, bytes));
    verify_fill(slot, bytes, static_cast<unsigned char>(round), sum);
  }
  for (void* block : kept) {
    if (block != nullptr) REQUIRE(counted_free(block));
  }
  std::printf("plugin: %d blocks, checksum %016llx\n", blocks, (unsigned long long)sum.value());
  std::fflush(stdout);
  return static_cast<int>(counts.allocations.load());
}
