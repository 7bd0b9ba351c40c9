// cudaDeviceReset with blocks alive, twenty times over: the old addresses are gone (a free of one is
// refused), new blocks work and hold their data, also on a stream made anew. Run plain and preloaded by the
// integration and GPU tests. One thread.
#include "tests/programs/support.hpp"

int main() {
  using namespace programs;
  checksum sum;
  for (int round = 0; round < 20; ++round) {
    void* kept = nullptr;
    void* gone = nullptr;
    void* ordered = nullptr;
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    REQUIRE(counted_malloc(&kept, 1 << 20));
    REQUIRE(counted_malloc(&gone, 1 << 16));
    REQUIRE(counted_malloc_async(&ordered, 1 << 16, stream));
    REQUIRE(cudaMemsetAsync(ordered, round, 1 << 16, stream));
    REQUIRE(cudaMemset(kept, round, 1 << 20));
    REQUIRE(counted_free(gone));
    REQUIRE(cudaStreamSynchronize(stream));
    verify_fill(kept, 1 << 20, static_cast<unsigned char>(round), sum);
    verify_fill(ordered, 1 << 16, static_cast<unsigned char>(round), sum);
    REQUIRE(cudaDeviceReset());
    REQUIRE_CODE(counted_free(kept), cudaErrorInvalidValue);
    REQUIRE_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  }
  std::printf("20 resets, checksum %016llx\n", (unsigned long long)sum.value());
  counts.print();
}
