// An allocator as PyTorch plugs one in: cudaMallocAsync and cudaFreeAsync of the stream it names. Loaded by
// torch_features.py from the folder of the programs. Any thread; a refusal is no block, which PyTorch
// reports.
#include <cuda_runtime_api.h>

#include <cstddef>

extern "C" {

void* plug_in_alloc(std::size_t bytes, int device, cudaStream_t stream) {
  void* block = nullptr;
  cudaSetDevice(device);
  return cudaMallocAsync(&block, bytes, stream) == cudaSuccess ? block : nullptr;
}

void plug_in_free(void* block, std::size_t, int device, cudaStream_t stream) {
  cudaSetDevice(device);
  cudaFreeAsync(block, stream);
}
}
