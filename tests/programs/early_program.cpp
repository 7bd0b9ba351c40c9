// Uses and frees what a library's constructor allocated before main (early_library.cpp). Run plain and
// preloaded by the integration and GPU tests. One thread.
#include "tests/programs/support.hpp"

extern "C" {
extern void* early_block;
extern int early_code;
}

int main() {
  using namespace programs;
  std::printf("allocated before main: %d\n", early_code);
  REQUIRE(cudaMemset(early_block, 8, 1 << 20));
  checksum sum;
  verify_fill(early_block, 1 << 20, 8, sum);
  void* later = nullptr;
  REQUIRE(counted_malloc(&later, 1 << 20));
  REQUIRE_CODE(later == early_block, false);
  REQUIRE(counted_free(later));
  REQUIRE(counted_free(early_block));
  std::printf("freed again: %d\n", counted_free(early_block));
  std::printf("checksum %016llx\n", (unsigned long long)sum.value());
  counts.print();
}
