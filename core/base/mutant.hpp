// Seeded bugs: GPUMEM_MUTANT(name) stands at the place of each, and is false but in libgpumem_mutant.so, a
// library for tests that makes the one mistake that TEST_MUTANT names. tests/integration/random/mutants.py
// proves that each is caught. Costs nothing in the real library.
#pragma once

#ifdef GPUMEM_TEST_MUTANT
#include <cstdlib>
#include <string_view>

namespace gpumem::base {

inline bool is_mutant(std::string_view name) noexcept {
  static char const* const chosen = std::getenv("TEST_MUTANT");
  return chosen != nullptr && name == chosen;
}

}  // namespace gpumem::base
#define GPUMEM_MUTANT(name) ::gpumem::base::is_mutant(#name)
#else
#define GPUMEM_MUTANT(name) false
#endif
