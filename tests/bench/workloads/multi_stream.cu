// RMM's own multi-stream benchmark, with its parameters: 1, 2 and 4 streams, 4 kernels of a million cycles,
// each with a temporary of 8 bytes allocated before it and freed after its launch; streams that have been
// served before, or not. Kernels a millisecond: four streams should give four times the rate of one. One
// thread.
#include <memory>

#include "tests/bench/workloads/workloads.hpp"

namespace {

__global__ void compute_bound(long long* out) {
  const long long begin = clock64();
  long long at = begin;
  while (at - begin < 1000000) at = clock64();
  *out = at;
}

}  // namespace

void bench::multi_stream(allocator& memory, const options& wanted) {
  constexpr std::size_t kernels = 4, bytes = sizeof(long long);
  for (std::size_t many : {1, 2, 4}) {
    for (bool warm : {false, true}) {
      std::vector<std::unique_ptr<stream>> streams;
      for (std::size_t i = 0; i < many; ++i) streams.push_back(std::make_unique<stream>());
      if (warm) {
        std::vector<void*> first;
        for (const auto& each : streams) first.push_back(memory.allocate(bytes, each->get()));
        for (std::size_t i = 0; i < many; ++i) memory.free(first[i], bytes, streams[i]->get());
      }
      REQUIRE(cudaDeviceSynchronize());
      std::vector<double> rates;
      for (const double end = now() + wanted.seconds * 1e9; rates.size() < 10 || now() < end;) {
        const double begin = now();
        for (std::size_t i = 0; i < kernels; ++i) {
          cudaStream_t on = streams[i % many]->get();
          void* block = memory.allocate(bytes, on);
          compute_bound<<<1, 1, 0, on>>>(static_cast<long long*>(block));
          REQUIRE(cudaPeekAtLastError());
          memory.free(block, bytes, on);
        }
        REQUIRE(cudaDeviceSynchronize());
        rates.push_back(static_cast<double>(kernels) / (now() - begin) * 1e6);
      }
      emit("multi_stream", std::to_string(many) + " streams, " + (warm ? "warm" : "cold"), "rate",
           median(std::move(rates)), "kernels/ms");
    }
  }
}
