// cuda::buffer, the container of CCCL 3.2 and later, on a chain of gpumem. For nvcc, and for g++ from
// CCCL 3.4 on.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cuda/buffer>
#include <cuda/stream>
#include <gpumem/memory_resource.hpp>
#include <vector>

int main() {
  cuda::stream stream{cuda::devices[0]};
  gpumem::memory_resource const scratch("scratch");
  std::vector<int> const numbers(1000, 42);
  auto const buffer = cuda::make_buffer<int>(stream, scratch, numbers);

  std::vector<int> back(numbers.size());
  cudaMemcpyAsync(back.data(), buffer.data(), buffer.size() * sizeof(int), cudaMemcpyDefault, stream.get());
  stream.sync();
  std::printf("the same numbers: %s\n", back == numbers ? "yes" : "no");
  return back == numbers ? 0 : 1;
}
