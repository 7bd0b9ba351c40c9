// A library whose constructor and destructor use CUDA: the loader runs the constructor before that of a
// preloaded library, and before main. Linked into early_program. Runs on the main thread.
#include "tests/programs/support.hpp"

extern "C" {
void* early_block = nullptr;
int early_code = -1;
}

namespace {

[[gnu::constructor]] void allocate_early() {
  early_code = programs::counted_malloc(&early_block, 1 << 20);
  void* other = nullptr;
  if (programs::counted_malloc(&other, 5000) == cudaSuccess) programs::counted_free(other);
}

[[gnu::destructor]] void free_late() {
  void* block = nullptr;
  if (cudaMalloc(&block, 1000) == cudaSuccess) cudaFree(block);  // any code is fine, a crash is not
}

}  // namespace
