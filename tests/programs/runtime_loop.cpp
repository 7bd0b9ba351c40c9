// The plainest CUDA program: allocate, fill, read back and free blocks of many sizes through the runtime,
// with a few blocks alive at any time. Run plain and preloaded by the integration and GPU tests; argument:
// number of rounds. One thread. Prints a checksum every 50 rounds and its own counts last.
#include "tests/programs/support.hpp"

int main(int argc, char** argv) {
  using namespace programs;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  struct block {
    void* address;
    std::size_t bytes;
    unsigned char value;
  };
  std::vector<block> live;
  sequence random(7);
  checksum sum;
  REQUIRE(cudaSetDevice(0));
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = 1 + random.next(std::uint64_t{1} << (4 + random.next(19)));
    block fresh{nullptr, bytes, static_cast<unsigned char>(round)};
    REQUIRE(counted_malloc(&fresh.address, bytes));
    REQUIRE(cudaMemset(fresh.address, fresh.value, bytes));
    live.push_back(fresh);
    if (live.size() > 8) {
      const std::size_t victim = random.next(live.size());
      verify_fill(live[victim].address, live[victim].bytes, live[victim].value, sum);
      REQUIRE(counted_free(live[victim].address));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    if (round % 50 == 49)
      std::printf("round %d checksum %016llx\n", round + 1, (unsigned long long)sum.value());
  }
  for (const block& last : live) {
    verify_fill(last.address, last.bytes, last.value, sum);
    REQUIRE(counted_free(last.address));
  }
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaGetLastError());
  std::printf("checksum %016llx\n", (unsigned long long)sum.value());
  counts.print();
}
