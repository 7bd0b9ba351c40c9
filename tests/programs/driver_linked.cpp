// A program of the driver API that is linked to libcuda.so.1: its calls reach the library by exported names.
// Run plain and preloaded by the integration and GPU tests. One thread.
#include "tests/programs/driver_work.hpp"

int main() {
  return programs::driver_work({&cuInit, &cuDeviceGet, &cuDevicePrimaryCtxRetain, &cuCtxSetCurrent,
                                &cuMemAlloc_v2, &cuMemFree_v2, &cuMemsetD8_v2, &cuMemcpyDtoH_v2,
                                &cuCtxSynchronize});
}
