// What a driver still has for programs of CUDA 2.0 to 4.1, and cuGetProcAddress gives to whoever asks for
// these versions (measured). Any thread. Addresses of 32 bits hold none of this machine's memory: these
// refuse; what a driver does with them no GPU was asked. What opens IPC memory differs from the newer one by
// its flags alone.
#include "entry.hpp"

using namespace simulated;

SIMULATED_API cuMemAlloc(CUdeviceptr_v1* out, unsigned) {
  SIMULATED_CALL(after_init);
  if (out != nullptr) *out = 0;
  return CUDA_ERROR_NOT_SUPPORTED;
}

SIMULATED_API cuMemFree(CUdeviceptr_v1) {
  SIMULATED_CALL(after_init);
  return CUDA_ERROR_NOT_SUPPORTED;
}

SIMULATED_API cuMemGetInfo(unsigned* available, unsigned* total) {
  SIMULATED_CALL(after_init);
  if (available != nullptr) *available = 0;
  if (total != nullptr) *total = 0;
  return CUDA_ERROR_NOT_SUPPORTED;
}

SIMULATED_API cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}
