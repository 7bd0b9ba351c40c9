// The hazard a pool below cudaFree can make: a block is freed while another stream still works on it, the
// same size is asked for again at once and written by a second stream. Natively cudaFree waits, so every byte
// is determined. Uses only copies and memsets, so it runs on the simulated CUDA (whose checker sees unordered
// accesses) as on a real GPU. Run plain, preloaded, and over unsafe_cache, which must make it fail. One
// thread.
#include "tests/programs/support.hpp"

int main(int argc, char** argv) {
  using namespace programs;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  constexpr std::size_t bytes = 32 << 20;
  cudaStream_t first;
  cudaStream_t second;
  REQUIRE(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  void* result = nullptr;
  REQUIRE(counted_malloc(&result, bytes));
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto value = static_cast<unsigned char>(round % 100 + 1);
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, bytes));
    REQUIRE(cudaMemsetAsync(block, value, bytes, first));
    for (int copies = 0; copies < 8; ++copies)
      REQUIRE(cudaMemcpyAsync(result, block, bytes, cudaMemcpyDeviceToDevice, first));
    REQUIRE(counted_free(block));
    void* again = nullptr;
    REQUIRE(counted_malloc(&again, bytes));
    REQUIRE(cudaMemsetAsync(again, 0xee, bytes, second));
    REQUIRE(cudaStreamSynchronize(first));
    unsigned char probe[64] = {};
    for (std::size_t at = 0; at < bytes; at += bytes / 16) {
      REQUIRE(cudaMemcpy(probe, static_cast<char*>(result) + at, sizeof probe, cudaMemcpyDeviceToHost));
      for (unsigned char byte : probe) wrong += byte != value;
    }
    REQUIRE(cudaStreamSynchronize(second));
    REQUIRE(counted_free(again));
  }
  REQUIRE(counted_free(result));
  std::printf("%d rounds, %d wrong bytes\n", rounds, wrong);
  counts.print();
  return wrong == 0 ? 0 : 1;
}
