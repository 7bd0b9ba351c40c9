// Not a program: a preload library that answers every cuMemAlloc with one and the same address and every free
// of it with success, whatever is asked. What a pair costs under it is what the runtime itself adds to a
// call, the least that any library below the runtime can reach: the column "cudart alone" of the table of
// pairs. For that one loop only; its memory must not be used. Nothing of gpumem is linked to it.
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>
#include <initializer_list>

namespace {

using look_up = void* (*)(void*, char const*);
using get_proc_address = CUresult (*)(char const*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

get_proc_address real_get = nullptr;
CUresult (*real_alloc)(CUdeviceptr*, size_t) = nullptr;
CUresult (*real_free)(CUdeviceptr) = nullptr;
CUdeviceptr the_block = 0;

CUresult answer_alloc(CUdeviceptr* result, size_t bytes) {
  if (the_block == 0) {
    CUresult const code = real_alloc(&the_block, bytes);
    if (code != CUDA_SUCCESS) return code;
  }
  *result = the_block;
  return CUDA_SUCCESS;
}

CUresult answer_free(CUdeviceptr address) {
  return address == the_block ? CUDA_SUCCESS : real_free(address);
}

CUresult get(char const* name, void** function, int version, cuuint64_t flags,
             CUdriverProcAddressQueryResult* status) {
  CUresult const code = real_get(name, function, version, flags, status);
  if (code != CUDA_SUCCESS || function == nullptr || *function == nullptr) return code;
  if (std::strcmp(name, "cuMemAlloc") == 0) {
    real_alloc = reinterpret_cast<decltype(real_alloc)>(*function);
    *function = reinterpret_cast<void*>(&answer_alloc);
  } else if (std::strcmp(name, "cuGetProcAddress") == 0) {  // the runtime goes on with what this gives it
    *function = reinterpret_cast<void*>(&get);
  } else if (std::strcmp(name, "cuMemFree") == 0) {
    real_free = reinterpret_cast<decltype(real_free)>(*function);
    *function = reinterpret_cast<void*>(&answer_free);
  }
  return code;
}

look_up real_dlsym() {
  for (char const* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<look_up>(found);
  }
  return nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, char const* name) noexcept {
  static look_up const real = real_dlsym();
  void* const found = real(handle, name);
  if (found == nullptr || std::strcmp(name, "cuGetProcAddress_v2") != 0) return found;
  real_get = reinterpret_cast<get_proc_address>(found);
  return reinterpret_cast<void*>(&get);
}
