// A program of a library that takes its own memory: thrust vectors made, filled, sorted and dropped in a
// loop, with thrust's temporary buffers from cudaMalloc as well. Prints a checksum, and the time of a round.
// Arguments: rounds, keys. One thread.
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <chrono>

#include "tests/programs/support.hpp"

struct scramble {
  __host__ __device__ unsigned operator()(unsigned x) const {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    return x * 0x846ca68bu;
  }
};

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 500;
  const std::size_t keys = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1 << 20;
  programs::checksum sum;
  std::vector<unsigned> host;
  std::chrono::steady_clock::time_point begin;
  for (int round = 0; round < rounds + 10; ++round) {
    if (round == 10) begin = std::chrono::steady_clock::now();
    const std::size_t count = keys + static_cast<std::size_t>(round % 7) * 1000;
    thrust::device_vector<unsigned> values(count);
    thrust::sequence(values.begin(), values.end());
    thrust::transform(values.begin(), values.end(), values.begin(), scramble());
    thrust::sort(values.begin(), values.end());
    if (round % 100 == 0) {
      host.resize(count);
      thrust::copy(values.begin(), values.end(), host.begin());
      sum.add(host.data(), host.size() * sizeof(unsigned));
    }
  }
  REQUIRE(cudaDeviceSynchronize());
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  std::printf("checksum %016llx\n", (unsigned long long)sum.value());
  std::printf("time: thrust sort of %zuM, a round %.1f us\n", keys >> 20, spent.count() / rounds);
}
