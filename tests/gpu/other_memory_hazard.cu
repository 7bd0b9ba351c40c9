// reuse_hazard for memory that the host shares: a kernel waits and then reads a managed block, or pinned host
// memory, which the host has meanwhile freed, asked for again, and overwritten, by the CPU and by a kernel on
// another stream. Natively the frees wait and no word is ever wrong. Argument: rounds. One thread.
#include <algorithm>

#include "tests/gpu/kernels.cuh"

int main(int argc, char** argv) {
  using namespace programs;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  constexpr unsigned long long wait = 200'000;
  const std::size_t sizes[] = {4096, 64 << 10, 1 << 20, 8 << 20};
  cudaStream_t reader;
  cudaStream_t writer;
  REQUIRE(cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking));
  gpu::wrong_counter wrong;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = sizes[round / 2 % 4];
    const bool managed = round % 2 == 0;
    const auto value = static_cast<std::uint32_t>(round * 2 + 1);
    auto take = [&](void** block) {
      return managed ? cudaMallocManaged(block, bytes) : cudaMallocHost(block, bytes);
    };
    auto give = [&](void* block) { return managed ? counted_free(block) : cudaFreeHost(block); };
    void* block = nullptr;
    REQUIRE(take(&block));
    gpu::launch_fill(block, bytes, value, reader);
    REQUIRE(cudaStreamSynchronize(reader));
    gpu::launch_count(block, bytes, value, wait, wrong.device(), reader);
    REQUIRE(give(block));
    void* again = nullptr;
    REQUIRE(take(&again));
    if (round % 4 < 2) {
      auto* const words = static_cast<std::uint32_t*>(again);
      std::fill(words, words + bytes / 4, 0xeeeeeeeeu);
    } else {
      gpu::launch_fill(again, bytes, 0xddddddddu, writer);
    }
    REQUIRE(give(again));
  }
  const unsigned long long all = wrong.read();
  wrong.release();
  REQUIRE(cudaStreamDestroy(reader));
  REQUIRE(cudaStreamDestroy(writer));
  std::printf("%d rounds, %llu wrong words\n", rounds, all);
  counts.print();
  return all == 0 ? 0 : 1;
}
