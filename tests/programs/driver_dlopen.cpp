// A program that finds the driver by itself, as ctypes, CuPy, Triton and JAX do: dlopen of libcuda.so.1, then
// dlsym (argument "dlsym", the default) or cuGetProcAddress ("entry"). Says so and exits 0 where there is no
// driver, as such programs do. One thread.
#include <dlfcn.h>

#include <cstring>

#include "tests/programs/driver_work.hpp"

namespace {

void* library = nullptr;
decltype(&::cuGetProcAddress_v2) get_entry = nullptr;

// exported: name of the symbol; base and version: how cuGetProcAddress is asked for the same function.
template <typename function>
void find(function& out, const char* exported, const char* base, int version) {
  void* found = nullptr;
  if (get_entry != nullptr) {
    REQUIRE(get_entry(base, &found, version, 0, nullptr));
  } else {
    found = dlsym(library, exported);
  }
  REQUIRE_CODE(found == nullptr, false);
  std::memcpy(&out, &found, sizeof out);
}

}  // namespace

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "dlsym";
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("no driver: %s\n", dlerror());
    return 0;
  }
  if (std::strcmp(way, "entry") == 0) {
    void* entry = dlsym(library, "cuGetProcAddress_v2");
    REQUIRE_CODE(entry == nullptr, false);
    std::memcpy(&get_entry, &entry, sizeof get_entry);
  }
  programs::driver_functions cuda{};
  find(cuda.init, "cuInit", "cuInit", 2000);
  find(cuda.device_get, "cuDeviceGet", "cuDeviceGet", 2000);
  find(cuda.retain, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000);
  find(cuda.set_current, "cuCtxSetCurrent", "cuCtxSetCurrent", 4000);
  find(cuda.alloc, "cuMemAlloc_v2", "cuMemAlloc", 3020);
  find(cuda.free, "cuMemFree_v2", "cuMemFree", 3020);
  find(cuda.memset8, "cuMemsetD8_v2", "cuMemsetD8", 3020);
  find(cuda.copy_to_host, "cuMemcpyDtoH_v2", "cuMemcpyDtoH", 3020);
  find(cuda.synchronize, "cuCtxSynchronize", "cuCtxSynchronize", 2000);
  return programs::driver_work(cuda);
}
