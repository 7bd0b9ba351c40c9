// A library that takes memory of its own: built several times under different names, for library_holders. One
// thread; no runtime of CUDA, the driver alone.
#include <cuda.h>

#include <cstddef>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED CUdeviceptr take(std::size_t bytes) {
  CUdeviceptr block = 0;
  return cuMemAlloc(&block, bytes) == CUDA_SUCCESS ? block : 0;
}

// What no chain serves: seen only.
EXPORTED CUarray take_array(std::size_t width, std::size_t height) {
  CUDA_ARRAY_DESCRIPTOR what{};
  what.Width = width, what.Height = height, what.Format = CU_AD_FORMAT_UNSIGNED_INT8, what.NumChannels = 1;
  CUarray array = nullptr;
  return cuArrayCreate(&array, &what) == CUDA_SUCCESS ? array : nullptr;
}

EXPORTED CUresult give_back(CUdeviceptr block) {
  return cuMemFree(block);
}
