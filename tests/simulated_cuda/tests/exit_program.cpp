// A program that frees in a static destructor and, when given an argument, uses memory after its free.
// Run by ctest: exit code 3 when clean, 99 with the hazard under GPUMEM_SIMULATED_STRICT=1.
// Must never crash at exit, whatever the order of destructors.
#include <cuda_runtime_api.h>

#include "simulated.h"

namespace {

struct owner {
  void* memory = nullptr;
  ~owner() { cudaFree(memory); }
} last;

}  // namespace

int main(int count, char**) {
  if (cudaMalloc(&last.memory, 100) != cudaSuccess) return 1;
  if (count > 1) {
    void* freed = nullptr;
    cudaMallocAsync(&freed, 512, nullptr);
    cudaFreeAsync(freed, nullptr);
    simulated_control::launch(nullptr, freed, 512, 10);
  }
  return 3;
}
