// thrust on a chain of gpumem, by RMM's policy: the vector and thrust's own temporary memory. For nvcc.
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <cstdio>
#include <gpumem/memory_resource.hpp>
#include <rmm/cuda_stream.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/exec_policy.hpp>

int main() {
  gpumem::memory_resource const scratch("scratch");
  rmm::cuda_stream const stream;
  bool sorted = true;
  for (int round = 0; round < 100; ++round) {
    rmm::device_uvector<int> numbers(1 << 20, stream, scratch);
    auto const here = rmm::exec_policy(stream, scratch);
    thrust::sequence(here, numbers.begin(), numbers.end(), 1 << 20, -1);
    thrust::sort(here, numbers.begin(), numbers.end());
  }
  std::printf("sorted: %s\n", sorted ? "yes" : "no");
  return sorted ? 0 : 1;
}
