// A libcuda.so.1 of a few functions for the tests of the loader part: what matters here is which function is
// reached, so each of interest leaves its name in a trace. Built in three shapes: full, OLD (a driver from
// before cuMemAllocAsync and cuGetProcAddress_v2), and OUTER (a loader that forwards to an inner driver by
// dlsym, as WSL's does).
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

char trace[4096];

CUresult reached(char const* name) {
  std::strcat(trace, name);
  std::strcat(trace, " ");
  return CUDA_SUCCESS;
}

CUdeviceptr allocate(size_t bytes) {
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return reinterpret_cast<CUdeviceptr>(memory);
}

}  // namespace

extern "C" {

char const* stand_in_trace() {
  return trace;
}
void stand_in_clear() {
  trace[0] = 0;
}

CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(&trace);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

#ifdef OUTER
CUresult cuMemAlloc_v2(CUdeviceptr* result, size_t bytes) {
  reached("outer");
  static void* const inner = dlopen("libinner_cuda.so", RTLD_NOW | RTLD_LOCAL);
  using function = CUresult (*)(CUdeviceptr*, size_t);
  return reinterpret_cast<function>(dlsym(inner, "cuMemAlloc_v2"))(result, bytes);
}
#else
CUresult cuMemAlloc_v2(CUdeviceptr* result, size_t bytes) {
  *result = allocate(bytes);
  return reached("cuMemAlloc_v2");
}
#endif
#undef cuMemAlloc
CUresult cuMemAlloc(unsigned* result, unsigned) {
  *result = 0;
  return reached("cuMemAlloc");
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  std::free(reinterpret_cast<void*>(address));
  return reached("cuMemFree_v2");
}
CUresult cuNewThing_v9() {
  return reached("cuNewThing_v9");
}
#undef cuIpcOpenMemHandle
CUresult cuIpcOpenMemHandle(CUdeviceptr*, CUipcMemHandle, unsigned) {
  return reached("cuIpcOpenMemHandle");
}

#ifndef OLD
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr*, CUipcMemHandle, unsigned) {
  return reached("cuIpcOpenMemHandle_v2");
}
CUresult cuMemAllocAsync(CUdeviceptr* result, size_t bytes, CUstream) {
  *result = allocate(bytes);
  return reached("cuMemAllocAsync");
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* result, size_t bytes, CUstream) {
  *result = allocate(bytes);
  return reached("cuMemAllocAsync_ptsz");
}
#endif

#undef cuGetProcAddress
CUresult cuGetProcAddress(char const* name, void** function, int version, cuuint64_t flags);
}

namespace {

struct known {
  char const* family;
  int version;
  bool per_thread;
  void* function;
};

#ifndef OLD
extern "C" CUresult cuGetProcAddress_v2(char const* name, void** function, int version, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult* status);
#endif

known const functions[] = {
    {"cuMemAlloc", 2000, false, reinterpret_cast<void*>(&cuMemAlloc)},
    {"cuMemAlloc", 3020, false, reinterpret_cast<void*>(&cuMemAlloc_v2)},
    {"cuMemFree", 3020, false, reinterpret_cast<void*>(&cuMemFree_v2)},
    {"cuNewThing", 13000, false, reinterpret_cast<void*>(&cuNewThing_v9)},
    {"cuIpcOpenMemHandle", 4010, false, reinterpret_cast<void*>(&cuIpcOpenMemHandle)},
    {"cuGetProcAddress", 11030, false, reinterpret_cast<void*>(&cuGetProcAddress)},
#ifndef OLD
    {"cuIpcOpenMemHandle", 11000, false, reinterpret_cast<void*>(&cuIpcOpenMemHandle_v2)},
    {"cuMemAllocAsync", 11020, false, reinterpret_cast<void*>(&cuMemAllocAsync)},
    {"cuMemAllocAsync", 11020, true, reinterpret_cast<void*>(&cuMemAllocAsync_ptsz)},
    {"cuGetProcAddress", 12000, false, reinterpret_cast<void*>(&cuGetProcAddress_v2)},
#endif
};

// The newest form that is not newer than asked; the per-thread one where asked for and present.
void* find(char const* name, int version, bool per_thread) {
  known const* best = nullptr;
  for (auto const& f : functions) {
    if (std::strcmp(f.family, name) != 0 || f.version > version || (f.per_thread && !per_thread)) continue;
    if (best == nullptr || f.version > best->version || f.per_thread) best = &f;
  }
  return best == nullptr ? nullptr : best->function;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress(char const* name, void** function, int version, cuuint64_t flags) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = find(name, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#ifndef OLD
CUresult cuGetProcAddress_v2(char const* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = find(name, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  if (status != nullptr) {
    *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}
#endif
}
