// The safety test. A kernel on a non-blocking stream waits and then reads a block, which the host has
// meanwhile freed, asked for again in the same size, and overwritten on another stream. Natively no word is
// ever wrong. Rounds vary the size, the number of readers and the way: cudaFree, cudaFreeAsync behind the
// reader, and both crossed. Must be able to fail: over unsafe_cache it reports corruption. Argument: rounds.
// One thread.
#include "tests/gpu/kernels.cuh"

int main(int argc, char** argv) {
  using namespace programs;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  constexpr int readers = 4;
  constexpr unsigned long long wait = 200'000;  // ns; far longer than the host needs to come around
  const std::size_t sizes[] = {4096, 64 << 10, 1 << 20, 4 << 20, 32 << 20};
  cudaStream_t reader[readers];
  cudaStream_t writer;
  for (cudaStream_t& each : reader) REQUIRE(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking));
  gpu::wrong_counter wrong;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = sizes[round % 5];
    const int way = round / 5 % 4;
    const int used = 1 + round % readers;
    const auto value = static_cast<std::uint32_t>(round * 2 + 1);
    const bool ordered_alloc = way == 1 || way == 2;
    const bool ordered_free = way == 1 || way == 3;
    void* block = nullptr;
    if (ordered_alloc) {
      REQUIRE(counted_malloc_async(&block, bytes, reader[0]));
      REQUIRE(cudaStreamSynchronize(reader[0]));
    } else {
      REQUIRE(counted_malloc(&block, bytes));
    }
    gpu::launch_fill(block, bytes, value, reader[0]);
    REQUIRE(cudaStreamSynchronize(reader[0]));
    // cudaFreeAsync promises only its own stream's work; every other reader would need an event.
    const int reading = ordered_free || way == 2 ? 1 : used;
    for (int each = 0; each < reading; ++each)
      gpu::launch_count(block, bytes, value, wait, wrong.device(), reader[each]);
    if (way == 2)
      REQUIRE(cudaStreamSynchronize(reader[0]));  // cudaFree of an async block does not wait by itself
    REQUIRE(ordered_free ? counted_free_async(block, reader[0]) : counted_free(block));
    void* again = nullptr;
    REQUIRE(way == 1 ? counted_malloc_async(&again, bytes, writer) : counted_malloc(&again, bytes));
    gpu::launch_fill(again, bytes, 0xeeeeeeeeu, writer);
    REQUIRE(way == 1 ? counted_free_async(again, writer) : counted_free(again));
  }
  const unsigned long long all = wrong.read();
  wrong.release();
  for (cudaStream_t each : reader) REQUIRE(cudaStreamDestroy(each));
  REQUIRE(cudaStreamDestroy(writer));
  std::printf("%d rounds, %llu wrong words\n", rounds, all);
  counts.print();
  return all == 0 ? 0 : 1;
}
