// Two- and three-dimensional copies between linear memory; arrays are in api_array.cpp.
// Any thread.
// A slice of a 3D copy is a 2D copy of its own; the order among them is the stream's.
#include "copy.hpp"

using namespace simulated;

namespace {

bool host(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST;
}

std::uint64_t side(CUmemorytype type, void const* on_host, CUdeviceptr on_device) {
  return host(type) ? reinterpret_cast<std::uint64_t>(on_host) : on_device;
}

CUresult plane(machine& m, CUstream on, CUDA_MEMCPY2D const* p, bool blocking) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  copy_shape shape;
  shape.width = p->WidthInBytes;
  shape.rows = p->Height;
  shape.source_pitch = p->srcPitch != 0 ? p->srcPitch : p->WidthInBytes;
  shape.target_pitch = p->dstPitch != 0 ? p->dstPitch : p->WidthInBytes;
  shape.source =
      side(p->srcMemoryType, p->srcHost, p->srcDevice) + p->srcY * shape.source_pitch + p->srcXInBytes;
  shape.target =
      side(p->dstMemoryType, p->dstHost, p->dstDevice) + p->dstY * shape.target_pitch + p->dstXInBytes;
  bool const strict = p->srcMemoryType != CU_MEMORYTYPE_UNIFIED && p->dstMemoryType != CU_MEMORYTYPE_UNIFIED;
  return copy(m, on, shape, {host(p->srcMemoryType), host(p->dstMemoryType), strict}, blocking);
}

CUresult volume(machine& m, CUstream on, CUDA_MEMCPY3D const* p, bool blocking) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  bool const strict = p->srcMemoryType != CU_MEMORYTYPE_UNIFIED && p->dstMemoryType != CU_MEMORYTYPE_UNIFIED;
  for (std::uint64_t z = 0; z < p->Depth; ++z) {
    copy_shape shape;
    shape.width = p->WidthInBytes;
    shape.rows = p->Height;
    shape.source_pitch = p->srcPitch != 0 ? p->srcPitch : p->WidthInBytes;
    shape.target_pitch = p->dstPitch != 0 ? p->dstPitch : p->WidthInBytes;
    shape.source = side(p->srcMemoryType, p->srcHost, p->srcDevice) + p->srcXInBytes +
                   (p->srcY + (p->srcZ + z) * p->srcHeight) * shape.source_pitch;
    shape.target = side(p->dstMemoryType, p->dstHost, p->dstDevice) + p->dstXInBytes +
                   (p->dstY + (p->dstZ + z) * p->dstHeight) * shape.target_pitch;
    SIMULATED_TRY(copy(m, on, shape, {host(p->srcMemoryType), host(p->dstMemoryType), strict}, blocking));
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuMemcpy2D_v2(CUDA_MEMCPY2D const* p) {
  SIMULATED_CALL(with_context);
  SIMULATED_TRY(refuse_blocking(m, nullptr));
  return plane(m, nullptr, p, true);
}
SIMULATED_PER_THREAD(cuMemcpy2D_v2, _ptds, (CUDA_MEMCPY2D const* p), (p))

SIMULATED_API cuMemcpy2DUnaligned_v2(CUDA_MEMCPY2D const* p) {
  SIMULATED_CALL(with_context);
  SIMULATED_TRY(refuse_blocking(m, nullptr));
  return plane(m, nullptr, p, true);
}
SIMULATED_PER_THREAD(cuMemcpy2DUnaligned_v2, _ptds, (CUDA_MEMCPY2D const* p), (p))

SIMULATED_API cuMemcpy2DAsync_v2(CUDA_MEMCPY2D const* p, CUstream on) {
  SIMULATED_CALL(with_context);
  return plane(m, on, p, false);
}
SIMULATED_PER_THREAD(cuMemcpy2DAsync_v2, _ptsz, (CUDA_MEMCPY2D const* p, CUstream on), (p, on))

SIMULATED_API cuMemcpy3D_v2(CUDA_MEMCPY3D const* p) {
  SIMULATED_CALL(with_context);
  SIMULATED_TRY(refuse_blocking(m, nullptr));
  return volume(m, nullptr, p, true);
}
SIMULATED_PER_THREAD(cuMemcpy3D_v2, _ptds, (CUDA_MEMCPY3D const* p), (p))

SIMULATED_API cuMemcpy3DAsync_v2(CUDA_MEMCPY3D const* p, CUstream on) {
  SIMULATED_CALL(with_context);
  return volume(m, on, p, false);
}
SIMULATED_PER_THREAD(cuMemcpy3DAsync_v2, _ptsz, (CUDA_MEMCPY3D const* p, CUstream on), (p, on))
