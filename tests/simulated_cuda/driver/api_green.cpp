// Green contexts: parts of a device's primary context with streams of their own. Memory and events made in
// one are the primary context's (cuda.h: it is retained, and an event of it covers its green contexts). Any
// thread. Partitions of multiprocessors are taken as they are asked for: nothing computes here.
#include "entry.hpp"

using namespace simulated;

namespace {

CUresult resolve_green(machine& m, CUgreenCtx which, context*& result) {
  if (which == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  SIMULATED_TRY(m.resolve(reinterpret_cast<CUcontext>(which), result));
  return result->green_of != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

SIMULATED_API cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  SIMULATED_CALL(after_init);
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
  if (resource == nullptr || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = {};
  resource->type = type;
  resource->sm.smCount = 132;
  return CUDA_SUCCESS;
}

SIMULATED_API cuDevResourceGenerateDesc(CUdevResourceDesc* out, CUdevResource* resources, unsigned count) {
  SIMULATED_CALL(after_init);
  if (out == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  static int descriptor;
  *out = reinterpret_cast<CUdevResourceDesc>(&descriptor);
  return CUDA_SUCCESS;
}

SIMULATED_API cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc resources, CUdevice device,
                               unsigned flags) {
  SIMULATED_CALL(after_init);
  if (out == nullptr || resources == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  context* primary = nullptr;
  SIMULATED_TRY(primary_retain(m, device, primary));
  context* const made = m.new_context(device);
  made->green_of = primary;
  primary->greens.insert(made);
  m.start(*made);
  *out = reinterpret_cast<CUgreenCtx>(made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuGreenCtxDestroy(CUgreenCtx which) {
  SIMULATED_CALL(after_init);
  context* gone = nullptr;
  SIMULATED_TRY(resolve_green(m, which, gone));
  m.finish(*gone);
  return primary_release(m, gone->device);
}

SIMULATED_API cuCtxFromGreenCtx(CUcontext* out, CUgreenCtx which) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  SIMULATED_TRY(resolve_green(m, which, of));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(of);
  return CUDA_SUCCESS;
}

SIMULATED_API cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx which, unsigned flags, int priority) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  SIMULATED_TRY(resolve_green(m, which, of));
  if (out == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUstream>(m.make_stream(*of, flags, priority));
  return CUDA_SUCCESS;
}
