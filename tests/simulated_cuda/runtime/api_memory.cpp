// cudaMalloc and its family, copies and fills.
// Any thread.
// Each allocation is noted after success and each free before the call: above the driver boundary, where a
// preload library cannot hide that two allocations shared an address.
#include "driver.hpp"

using namespace simulated_runtime;

namespace {

cudaError_t given(CUresult code, void** out, CUdeviceptr address, std::size_t bytes, CUstream on) {
  if (code != CUDA_SUCCESS) return static_cast<cudaError_t>(code);
  *out = reinterpret_cast<void*>(address);
  if (address != 0 && driver().note_allocate != nullptr) driver().note_allocate(address, bytes, on);
  return cudaSuccess;
}

template <class Call>
cudaError_t give_back(void* memory, CUstream on, Call const& call) {
  if (memory != nullptr && driver().note_free != nullptr) driver().note_free(number(memory), on);
  CUresult const code = call();
  if (code != CUDA_SUCCESS && driver().note_free_refused != nullptr)
    driver().note_free_refused(number(memory));
  return static_cast<cudaError_t>(code);
}

cudaError_t allocate(driver_table const& d, void** out, std::size_t bytes) {
  if (out == nullptr) return cudaErrorInvalidValue;
  if (bytes == 0) {
    *out = nullptr;
    return cudaSuccess;
  }
  CUdeviceptr address = 0;
  CUresult const code = d.cuMemAlloc(&address, bytes);
  return given(code, out, address, bytes, nullptr);
}

cudaError_t allocate_async(driver_table const& d, void** out, std::size_t bytes, CUmemoryPool pool,
                           CUstream on) {
  if (out == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr address = 0;
  CUresult const code = pool != nullptr ? d.cuMemAllocFromPoolAsync(&address, bytes, pool, on)
                                        : d.cuMemAllocAsync(&address, bytes, on);
  return given(code, out, address, bytes, on);
}

cudaError_t allocate_pitch(driver_table const& d, void** out, std::size_t* pitch, std::size_t width,
                           std::size_t rows) {
  if (out == nullptr || pitch == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr address = 0;
  CUresult const code = d.cuMemAllocPitch(&address, pitch, width, rows, 4);
  return given(code, out, address, code == CUDA_SUCCESS ? *pitch * rows : 0, nullptr);
}

cudaError_t allocate_volume(driver_table const& d, cudaPitchedPtr* out, cudaExtent const& asked) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = {nullptr, 0, asked.width, asked.height};
  return allocate_pitch(d, &out->ptr, &out->pitch, asked.width, asked.height * asked.depth);
}

cudaError_t allocate_managed(driver_table const& d, void** out, std::size_t bytes, unsigned flags) {
  if (out == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr address = 0;
  CUresult const code = d.cuMemAllocManaged(&address, bytes, flags);
  return given(code, out, address, bytes, nullptr);
}

cudaError_t allocate_host(driver_table const& d, void** out, std::size_t bytes, unsigned flags) {
  if (out == nullptr) return cudaErrorInvalidValue;
  if (bytes == 0) {
    *out = nullptr;
    return cudaSuccess;
  }
  return static_cast<cudaError_t>(d.cuMemHostAlloc(out, bytes, flags));
}

cudaError_t copy(driver_table const& d, void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  CUresult code = CUDA_ERROR_INVALID_VALUE;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      code = d.cuMemcpyHtoD(number(to), from, bytes);
      break;
    case cudaMemcpyDeviceToHost:
      code = d.cuMemcpyDtoH(to, number(from), bytes);
      break;
    case cudaMemcpyDeviceToDevice:
      code = d.cuMemcpyDtoD(number(to), number(from), bytes);
      break;
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      code = d.cuMemcpy(number(to), number(from), bytes);
      break;
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
  return static_cast<cudaError_t>(code);
}

cudaError_t copy_async(driver_table const& d, void* to, void const* from, std::size_t bytes,
                       cudaMemcpyKind kind, CUstream on) {
  if (bytes == 0) return cudaSuccess;
  CUresult code = CUDA_ERROR_INVALID_VALUE;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      code = d.cuMemcpyHtoDAsync(number(to), from, bytes, on);
      break;
    case cudaMemcpyDeviceToHost:
      code = d.cuMemcpyDtoHAsync(to, number(from), bytes, on);
      break;
    case cudaMemcpyDeviceToDevice:
      code = d.cuMemcpyDtoDAsync(number(to), number(from), bytes, on);
      break;
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      code = d.cuMemcpyAsync(number(to), number(from), bytes, on);
      break;
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
  return static_cast<cudaError_t>(code);
}

CUDA_MEMCPY2D plane(void* to, std::size_t to_pitch, void const* from, std::size_t from_pitch,
                    std::size_t width, std::size_t rows, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D p = {};
  bool const from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  bool const to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
  p.srcMemoryType = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
                    : from_host               ? CU_MEMORYTYPE_HOST
                                              : CU_MEMORYTYPE_DEVICE;
  p.dstMemoryType = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
                    : to_host                 ? CU_MEMORYTYPE_HOST
                                              : CU_MEMORYTYPE_DEVICE;
  p.srcHost = from;
  p.srcDevice = number(from);
  p.dstHost = to;
  p.dstDevice = number(to);
  p.srcPitch = from_pitch;
  p.dstPitch = to_pitch;
  p.WidthInBytes = width;
  p.Height = rows;
  return p;
}

}  // namespace

RUNTIME_FUNCTION(cudaMalloc, (void** out, size_t bytes), allocate(d, out, bytes))
RUNTIME_FUNCTION(cudaFree, (void* memory),
                 give_back(memory, nullptr, [&] { return d.cuMemFree(number(memory)); }))
RUNTIME_FUNCTION(cudaMallocPitch, (void** out, size_t* pitch, size_t width, size_t rows),
                 allocate_pitch(d, out, pitch, width, rows))
RUNTIME_FUNCTION(cudaMalloc3D, (cudaPitchedPtr * out, cudaExtent asked), allocate_volume(d, out, asked))
RUNTIME_FUNCTION(cudaMallocManaged, (void** out, size_t bytes, unsigned flags),
                 allocate_managed(d, out, bytes, flags))
RUNTIME_BOTH_TRIED(cudaMallocAsync, _ptsz, (void** out, size_t bytes, cudaStream_t on),
                   allocate_async(d, out, bytes, nullptr, on))
RUNTIME_BOTH(cudaMallocFromPoolAsync, _ptsz, (void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t on),
             allocate_async(d, out, bytes, pool, on))
RUNTIME_BOTH_TRIED(cudaFreeAsync, _ptsz, (void* memory, cudaStream_t on),
                   give_back(memory, on, [&] { return d.cuMemFreeAsync(number(memory), on); }))
RUNTIME_FUNCTION(cudaMallocHost, (void** out, size_t bytes), allocate_host(d, out, bytes, 0))
RUNTIME_FUNCTION(cudaHostAlloc, (void** out, size_t bytes, unsigned flags),
                 allocate_host(d, out, bytes, flags))
RUNTIME_FUNCTION(cudaFreeHost, (void* memory), d.cuMemFreeHost(memory))
RUNTIME_FUNCTION(cudaHostRegister, (void* memory, size_t bytes, unsigned flags),
                 d.cuMemHostRegister(memory, bytes, flags))
RUNTIME_FUNCTION(cudaHostUnregister, (void* memory), d.cuMemHostUnregister(memory))
RUNTIME_FUNCTION(cudaHostGetDevicePointer, (void** out, void* memory, unsigned flags),
                 d.cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(out), memory, flags))
RUNTIME_FUNCTION(cudaHostGetFlags, (unsigned* flags, void* memory), d.cuMemHostGetFlags(flags, memory))
RUNTIME_FUNCTION(cudaMemGetInfo, (size_t * available, size_t* total), d.cuMemGetInfo(available, total))

RUNTIME_BOTH(cudaMemcpy, _ptds, (void* to, void const* from, size_t bytes, cudaMemcpyKind kind),
             copy(d, to, from, bytes, kind))
RUNTIME_BOTH(cudaMemcpyAsync, _ptsz,
             (void* to, void const* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t on),
             copy_async(d, to, from, bytes, kind, on))
RUNTIME_BOTH(cudaMemset, _ptds, (void* to, int value, size_t bytes),
             d.cuMemsetD8(number(to), static_cast<unsigned char>(value), bytes))
RUNTIME_BOTH(cudaMemsetAsync, _ptsz, (void* to, int value, size_t bytes, cudaStream_t on),
             d.cuMemsetD8Async(number(to), static_cast<unsigned char>(value), bytes, on))
RUNTIME_BOTH(cudaMemset2D, _ptds, (void* to, size_t pitch, int value, size_t width, size_t rows),
             d.cuMemsetD2D8(number(to), pitch, static_cast<unsigned char>(value), width, rows))
RUNTIME_BOTH(cudaMemset2DAsync, _ptsz,
             (void* to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t on),
             d.cuMemsetD2D8Async(number(to), pitch, static_cast<unsigned char>(value), width, rows, on))

static cudaError_t copy_plane(driver_table const& d, CUDA_MEMCPY2D const& p) {
  return static_cast<cudaError_t>(d.cuMemcpy2D(&p));
}
static cudaError_t copy_plane(driver_table const& d, CUDA_MEMCPY2D const& p, CUstream on) {
  return static_cast<cudaError_t>(d.cuMemcpy2DAsync(&p, on));
}
RUNTIME_BOTH(cudaMemcpy2D, _ptds,
             (void* to, size_t to_pitch, void const* from, size_t from_pitch, size_t width, size_t rows,
              cudaMemcpyKind kind),
             copy_plane(d, plane(to, to_pitch, from, from_pitch, width, rows, kind)))
RUNTIME_BOTH(cudaMemcpy2DAsync, _ptsz,
             (void* to, size_t to_pitch, void const* from, size_t from_pitch, size_t width, size_t rows,
              cudaMemcpyKind kind, cudaStream_t on),
             copy_plane(d, plane(to, to_pitch, from, from_pitch, width, rows, kind), on))
