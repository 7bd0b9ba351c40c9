// See spin.hpp. A launch takes 2 us (BENCH_LAUNCH_NS) of the simulated time, and no less of the true one:
// whoever waits for the GPU by the true clock waits about as long as on a real one.
#include <cstdlib>

#include "tests/bench/workloads/spin.hpp"
#include "tests/bench/workloads/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

constexpr unsigned long long kernel_ns = 20000;

unsigned long long launch_time_ns() {
  static const char* const given = std::getenv("BENCH_LAUNCH_NS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 2000;
}

}  // namespace

void bench::spin(void* word, cudaStream_t on) {
  const double begin = now();
  const unsigned long long launch_ns = launch_time_ns();
  if (simulated_control::launch(on, word, sizeof(unsigned), kernel_ns) != CUDA_SUCCESS) std::abort();
  simulated_control::advance(launch_ns);
  while (now() - begin < static_cast<double>(launch_ns)) {
  }
}

double bench::now_of_spins() {
  static auto* const simulated_now = simulated_control::find<decltype(simulatedNow)>("simulatedNow");
  return static_cast<double>(simulated_now());
}
