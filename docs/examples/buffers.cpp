// RMM's containers on a chain of gpumem: a buffer, a vector, and all that RMM makes without being told. For
// RMM 26.08 and later; preloaded, and without gpumem on cudaMallocAsync.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <gpumem/memory_resource.hpp>
#include <numeric>
#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <vector>

int main() {
  cudaStream_t handle = nullptr;
  cudaStreamCreate(&handle);
  cuda::stream_ref const stream{handle};
  gpumem::memory_resource const scratch("scratch");

  std::vector<int> numbers(1 << 20), back(numbers.size());
  std::iota(numbers.begin(), numbers.end(), 1);
  std::size_t const bytes = numbers.size() * sizeof(int);
  rmm::device_buffer buffer(bytes, stream, scratch);
  rmm::device_uvector<int> vector(numbers.size(), stream, scratch);
  cudaMemcpyAsync(buffer.data(), numbers.data(), bytes, cudaMemcpyHostToDevice, handle);
  cudaMemcpyAsync(vector.data(), buffer.data(), bytes, cudaMemcpyDeviceToDevice, handle);
  cudaMemcpyAsync(back.data(), vector.data(), bytes, cudaMemcpyDeviceToHost, handle);

  // RMM's adaptors stand on a chain as on any resource, and it may serve whatever names none.
  rmm::mr::statistics_resource_adaptor counted(scratch);
  rmm::mr::set_current_device_resource(counted);
  rmm::device_uvector<double> unnamed(1000, stream);

  cudaStreamSynchronize(handle);
  std::printf("the same numbers: %s, counted by RMM: %lld bytes\n", back == numbers ? "yes" : "no",
              static_cast<long long>(counted.get_bytes_counter().value));
  return back == numbers ? 0 : 1;
}
