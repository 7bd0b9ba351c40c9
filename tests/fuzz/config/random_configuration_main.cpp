// Prints one random configuration: random_configuration SEED FOLDER. For tests that run whole programs.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/config/random_configuration.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto const text = gpumem::tests::random_configuration(std::strtoull(argv[1], nullptr, 10), argv[2]);
  std::fputs(text.c_str(), stdout);
}
