// The hooked symbols as numbers and as declared functions, both from symbols.def. The number of a hook is
// its index in the counters and in requests. Included by everything in shim; constants only.
#pragma once

// Set for the whole of shim: makes cuda.h declare every form of a function under its exported name.
#ifndef __CUDA_API_VERSION_INTERNAL
#error "compile shim with __CUDA_API_VERSION_INTERNAL"
#endif
#include <cuda.h>

#include <cstddef>
#include <cstdint>

// Hooked, but younger than the oldest cuda.h this builds with.
#if CUDA_VERSION < 13000
extern "C" CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context);
extern "C" CUresult CUDAAPI cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                                            CUmemoryPool pool);
#define GPUMEM_PREFETCH_BATCH(name)                                                        \
  extern "C" CUresult CUDAAPI name(CUdeviceptr* addresses, size_t* sizes, size_t count,    \
                                   CUmemLocation* locations, size_t* first, size_t places, \
                                   unsigned long long flags, CUstream stream);
GPUMEM_PREFETCH_BATCH(cuMemPrefetchBatchAsync)
GPUMEM_PREFETCH_BATCH(cuMemPrefetchBatchAsync_ptsz)
GPUMEM_PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync)
GPUMEM_PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz)
#undef GPUMEM_PREFETCH_BATCH
extern "C" CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                                   unsigned long long flags, CUstream stream);
extern "C" CUresult CUDAAPI cuMemDiscardBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                                        unsigned long long flags, CUstream stream);
#endif
#if CUDA_VERSION < 13010
struct CUstreamCigCaptureParams_st;
using CUstreamCigCaptureParams = CUstreamCigCaptureParams_st;
extern "C" CUresult CUDAAPI cuStreamBeginCaptureToCig(CUstream stream, CUstreamCigCaptureParams* parameters);
extern "C" CUresult CUDAAPI cuStreamBeginCaptureToCig_ptsz(CUstream stream,
                                                           CUstreamCigCaptureParams* parameters);
extern "C" CUresult CUDAAPI cuStreamEndCaptureToCig(CUstream stream);
extern "C" CUresult CUDAAPI cuStreamEndCaptureToCig_ptsz(CUstream stream);
#endif
#if CUDA_VERSION < 13030
using CUgraphRecaptureCallback = void*;  // a function; it is only handed on
extern "C" CUresult CUDAAPI cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode,
                                                          CUgraph graph, CUgraphRecaptureCallback callback,
                                                          void* data);
extern "C" CUresult CUDAAPI cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, CUstreamCaptureMode mode,
                                                               CUgraph graph,
                                                               CUgraphRecaptureCallback callback, void* data);
#endif

#if CUDA_VERSION < 13040
extern "C" CUresult CUDAAPI cuMemGetLocationInfo(CUdeviceptr address, size_t bytes, size_t summary,
                                                 size_t sampling, CUmemLocation* locations);
#endif

namespace gpumem::shim {

enum class hook : std::uint16_t {
#define GPUMEM_DRIVER_HOOK(name, family, version, form, verb, route) name,
#define GPUMEM_RUNTIME_HOOK(name) name,
#include "shim/symbols/symbols.def"
#undef GPUMEM_DRIVER_HOOK
#undef GPUMEM_RUNTIME_HOOK
  count,
  // Behind them, what is counted as they are.
  last_hook = count - 1,
#define GPUMEM_INTERFACE_CALL(name, route) name,
#include "shim/symbols/symbols.def"
#undef GPUMEM_INTERFACE_CALL
  every_call,
};

inline constexpr std::size_t driver_hooks = 0
#define GPUMEM_DRIVER_HOOK(name, family, version, form, verb, route) +1
#include "shim/symbols/symbols.def"
#undef GPUMEM_DRIVER_HOOK
    ;
inline constexpr std::size_t all_hooks = static_cast<std::size_t>(hook::count);
inline constexpr std::size_t all_calls = static_cast<std::size_t>(hook::every_call);

constexpr std::size_t index_of(hook which) noexcept {
  return static_cast<std::size_t>(which);
}

// Of libcupti's functions, which come last in symbols.def.
constexpr bool is_profiler(hook which) noexcept {
  return index_of(which) >= index_of(hook::cuptiActivityEnable);
}

}  // namespace gpumem::shim
