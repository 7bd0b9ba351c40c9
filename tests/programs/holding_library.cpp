// A library that takes memory of its own: built several times under different names, for library_holders and
// Python programs. No runtime of CUDA, the driver alone.
#include <cuda.h>
#include <pthread.h>

#include <cstddef>
#include <thread>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED CUdeviceptr take(std::size_t bytes) {
  CUdeviceptr block = 0;
  return cuMemAlloc(&block, bytes) == CUDA_SUCCESS ? block : 0;
}

// On a thread that is no one else's, with that name.
EXPORTED CUdeviceptr take_on_own_thread(std::size_t bytes, char const* name) {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  CUdeviceptr block = 0;
  std::thread([&] {
    pthread_setname_np(pthread_self(), name);
    cuCtxSetCurrent(context);
    block = take(bytes);
  }).join();
  return block;
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
