// Seeds of random tests: a fixed list, so that CI repeats itself, and one fresh seed, printed, so that it
// also learns. GPUMEM_TEST_SEED=n replaces them all, to repeat a failure.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace gpumem::tests {

inline std::vector<unsigned> seeds() {
  if (char const* const asked = std::getenv("GPUMEM_TEST_SEED"); asked != nullptr) {
    return {static_cast<unsigned>(std::strtoul(asked, nullptr, 10))};
  }
  unsigned const fresh = std::random_device{}();
  std::printf("fresh seed: GPUMEM_TEST_SEED=%u repeats it\n", fresh);
#if defined(GPUMEM_UNDER_ASAN) || defined(GPUMEM_UNDER_TSAN)
  return {fresh};  // where each takes ten times as long
#else
  return {1, 20240229, fresh};
#endif
}

}  // namespace gpumem::tests
