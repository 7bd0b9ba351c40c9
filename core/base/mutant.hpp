// Seeded bugs. GPUMEM_MUTANT(name) stands where a bug would be, and is always false in the real library, at
// no cost. In libgpumem_mutant.so, for tests only, the one that TEST_MUTANT names is true.
// tests/integration/random/mutants.py proves that each is caught.
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
