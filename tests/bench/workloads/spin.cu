// See spin.hpp.
#include "tests/bench/workloads/spin.hpp"
#include "tests/bench/workloads/support.hpp"

namespace {

constexpr long long cycles = 36000;

__global__ void spins(unsigned* out) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
  *out = 1;
}

}  // namespace

void bench::spin(void* word, cudaStream_t on) {
  spins<<<1, 1, 0, on>>>(static_cast<unsigned*>(word));
  REQUIRE(cudaPeekAtLastError());
}

double bench::now_of_spins() {
  return now();
}
