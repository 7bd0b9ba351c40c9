// Prints REFERENCE.md; run by the target config_reference. One thread, at build time, never installed.
#include <cstdio>

#include "config/schema/reference.hpp"

int main() {
  auto const text = gpumem::config::reference_text();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
}
