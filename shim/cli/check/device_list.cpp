// See device_list.hpp.
#include "shim/cli/check/device_list.hpp"

#include <cuda.h>
#include <dlfcn.h>

namespace gpumem::cli {
namespace {

template <typename Function>
Function* function(void* driver, char const* name) {
  return reinterpret_cast<Function*>(::dlsym(driver, name));
}

}  // namespace

std::vector<device> list_devices() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {};
  auto* const init = function<CUresult(unsigned)>(driver, "cuInit");
  auto* const count = function<CUresult(int*)>(driver, "cuDeviceGetCount");
  auto* const get = function<CUresult(CUdevice*, int)>(driver, "cuDeviceGet");
  auto* const name = function<CUresult(char*, int, CUdevice)>(driver, "cuDeviceGetName");
  auto* const total = function<CUresult(std::size_t*, CUdevice)>(driver, "cuDeviceTotalMem_v2");
  int devices = 0;
  if (init == nullptr || count == nullptr || get == nullptr || name == nullptr || total == nullptr ||
      init(0) != CUDA_SUCCESS || count(&devices) != CUDA_SUCCESS) {
    return {};
  }
  std::vector<device> result;
  for (int i = 0; i < devices; ++i) {
    CUdevice handle = 0;
    char text[128] = "";
    std::size_t bytes = 0;
    if (get(&handle, i) != CUDA_SUCCESS || name(text, sizeof text, handle) != CUDA_SUCCESS ||
        total(&bytes, handle) != CUDA_SUCCESS) {
      continue;
    }
    result.push_back({i, text, bytes});
  }
  return result;
}

}  // namespace gpumem::cli
