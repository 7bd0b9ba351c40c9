// What the random program calls and a driver before 12.5 lacks, made of what that driver has. Linked into
// random_program.old only; where the driver is new enough nothing else changes.
#include <cuda.h>

extern "C" {
#undef cuCtxCreate
CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device);

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v2(context, flags, device);
}
}
