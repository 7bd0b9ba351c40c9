// Fuzzes a region: bytes choose the calls, and the checks of its random test must hold after each.
// With libFuzzer the entry point is LLVMFuzzerTestOneInput; otherwise `space_fuzz COUNT` runs COUNT inputs of
// random bytes from fixed seeds, and `space_fuzz FILE` one input.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/space/region_driver.hpp"

extern "C" int LLVMFuzzerTestOneInput(unsigned char const* data, std::size_t size) {
  std::size_t at = 0;
  auto const choose = [&](std::uint64_t below) {
    std::uint64_t value = 0;
    for (int i = 0; i < (below > 256 ? 2 : 1) && at < size; ++i) value = value << 8 | data[at++];
    return value % below;
  };
  auto const complain = [](std::string const& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::abort();
  };
  gpumem::space::region_driver driver(choose, complain);
  while (at < size) {
    driver.step();
    driver.check();
  }
  return 0;
}

#ifndef GPUMEM_LIBFUZZER
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int const count = std::atoi(argv[1]);
  if (count <= 0) {
    std::ifstream file(argv[1], std::ios::binary);
    std::vector<char> const bytes{std::istreambuf_iterator<char>(file), {}};
    return LLVMFuzzerTestOneInput(reinterpret_cast<unsigned char const*>(bytes.data()), bytes.size());
  }
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<unsigned char> bytes(4096);
    for (auto& b : bytes) b = static_cast<unsigned char>(random());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%d inputs\n", count);
}
#endif
