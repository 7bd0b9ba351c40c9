// Stream-ordered memory on several streams: allocate, fill and free on one stream, free on another one behind
// an event, cudaFree of an async block, and many short-lived streams. Every use is ordered, so every byte is
// determined. Run plain and preloaded by the integration and GPU tests. One thread.
#include "tests/programs/support.hpp"

int main() {
  using namespace programs;
  constexpr int streams = 4;
  cudaStream_t stream[streams];
  for (cudaStream_t& each : stream) REQUIRE(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
  cudaEvent_t event;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  checksum sum;
  sequence random(3);
  std::vector<unsigned char> host(1 << 20);

  for (int round = 0; round < 120; ++round) {
    const int own = round % streams;
    const std::size_t bytes = 1 + random.next(host.size());
    const auto value = static_cast<unsigned char>(round * 5 + 1);
    void* block = nullptr;
    REQUIRE(counted_malloc_async(&block, bytes, stream[own]));
    REQUIRE(cudaMemsetAsync(block, value, bytes, stream[own]));
    REQUIRE(cudaMemcpyAsync(host.data(), block, bytes, cudaMemcpyDeviceToHost, stream[own]));
    if (round % 3 == 0) {  // freed by another stream that waits for the last use
      const int other = (own + 1) % streams;
      REQUIRE(cudaEventRecord(event, stream[own]));
      REQUIRE(cudaStreamWaitEvent(stream[other], event, 0));
      REQUIRE(counted_free_async(block, stream[other]));
    } else if (round % 7 == 1) {
      REQUIRE(cudaStreamSynchronize(stream[own]));
      REQUIRE(counted_free(block));
    } else {
      REQUIRE(counted_free_async(block, stream[own]));
    }
    REQUIRE(cudaStreamSynchronize(stream[own]));
    REQUIRE_ALL(host.data(), bytes, value);
    sum.add(host.data(), bytes);
  }
  std::printf("ordered frees checksum %016llx\n", (unsigned long long)sum.value());

  // A destroyed stream's handle may come back as another stream: identity must not be the handle.
  for (int round = 0; round < 50; ++round) {
    cudaStream_t short_lived;
    void* block = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&short_lived, cudaStreamNonBlocking));
    REQUIRE(counted_malloc_async(&block, 65536, short_lived));
    REQUIRE(cudaMemsetAsync(block, round, 65536, short_lived));
    REQUIRE(cudaStreamSynchronize(short_lived));
    verify_fill(block, 65536, static_cast<unsigned char>(round), sum);
    REQUIRE(counted_free_async(block, short_lived));
    REQUIRE(cudaStreamDestroy(short_lived));
  }
  // Allocated in stream order, freed by the default stream.
  for (int round = 0; round < 20; ++round) {
    void* block = nullptr;
    REQUIRE(counted_malloc_async(&block, 100000, nullptr));
    REQUIRE(cudaMemsetAsync(block, round, 100000, nullptr));
    verify_fill(block, 100000, static_cast<unsigned char>(round), sum);
    REQUIRE(counted_free_async(block, nullptr));
  }
  REQUIRE(cudaDeviceSynchronize());
  for (cudaStream_t each : stream) REQUIRE(cudaStreamDestroy(each));
  REQUIRE(cudaEventDestroy(event));
  std::printf("checksum %016llx\n", (unsigned long long)sum.value());
  counts.print();
}
