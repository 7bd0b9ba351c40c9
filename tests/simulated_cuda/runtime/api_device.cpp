// Devices, errors, versions, peers, entry points.
// Any thread.
// cudaGetLastError and the version calls never touch a context.
#include <cstring>

#include "driver.hpp"

using namespace simulated_runtime;

namespace {

cudaError_t count_devices(int* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  *count = 0;
  library const& lib = driver();
  if (lib.state != cudaSuccess) return lib.state;
  return static_cast<cudaError_t>(lib.legacy.cuDeviceGetCount(count));
}

cudaError_t properties(cudaDeviceProp* out, int device) {
  library const& lib = driver();
  if (lib.state != cudaSuccess) return lib.state;
  if (out == nullptr) return cudaErrorInvalidValue;
  std::memset(out, 0, sizeof *out);
  CUresult code = lib.legacy.cuDeviceGetName(out->name, sizeof out->name, device);
  if (code == CUDA_SUCCESS) code = lib.legacy.cuDeviceTotalMem(&out->totalGlobalMem, device);
  if (code == CUDA_SUCCESS) code = lib.legacy.cuDeviceGetUuid(&out->uuid, device);
  out->major = 9;
  out->warpSize = 32;
  out->multiProcessorCount = 132;
  out->maxThreadsPerBlock = 1024;
  out->textureAlignment = 512;
  out->unifiedAddressing = out->managedMemory = out->concurrentManagedAccess = out->canMapHostMemory = 1;
  out->memoryPoolsSupported = 1;
  out->pciBusID = device + 1;
  return static_cast<cudaError_t>(code);
}

cudaError_t peer(int other, bool enable) {
  library const& lib = driver();
  CUcontext context = nullptr;
  CUresult code = lib.legacy.cuDevicePrimaryCtxRetain(&context, other);
  if (code == CUDA_SUCCESS) {
    code = enable ? lib.legacy.cuCtxEnablePeerAccess(context, 0) : lib.legacy.cuCtxDisablePeerAccess(context);
  }
  return static_cast<cudaError_t>(code);
}

cudaError_t entry_point(char const* name, void** out, unsigned version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status, bool per_thread) {
  library const& lib = driver();
  if (lib.state != cudaSuccess) return lib.state;
  if (name == nullptr || out == nullptr) return cudaErrorInvalidValue;
  if (flags == cudaEnableDefault && per_thread) flags = cudaEnablePerThreadDefaultStream;
  CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SUCCESS;
  CUresult const code = lib.get_address(name, out, static_cast<int>(version), flags, &result);
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(result);
  return static_cast<cudaError_t>(code);
}

struct error_text {
  cudaError_t code;
  char const* name;
  char const* text;
};
constexpr error_text errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
};

error_text const& describe(cudaError_t code) {
  static constexpr error_text unknown{cudaErrorUnknown, "unrecognized error code", "unrecognized error code"};
  for (error_text const& each : errors) {
    if (each.code == code) return each;
  }
  return unknown;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED cudaError_t CUDARTAPI cudaGetLastError() {
  return take_last_error(true);
}
EXPORTED cudaError_t CUDARTAPI cudaPeekAtLastError() {
  return take_last_error(false);
}
EXPORTED char const* CUDARTAPI cudaGetErrorName(cudaError_t code) {
  return describe(code).name;
}
EXPORTED char const* CUDARTAPI cudaGetErrorString(cudaError_t code) {
  return describe(code).text;
}

RUNTIME_API cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return note(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}
RUNTIME_API cudaDriverGetVersion(int* version) {
  if (version == nullptr) return note(cudaErrorInvalidValue);
  *version = 0;
  return driver().legacy.cuDriverGetVersion == nullptr ? cudaSuccess
                                                       : note(driver().legacy.cuDriverGetVersion(version));
}

RUNTIME_API cudaGetDeviceCount(int* count) {
  return note(count_devices(count));
}
RUNTIME_API cudaSetDevice(int device) {
  return note(set_device(device));
}
RUNTIME_API cudaInitDevice(int device, unsigned, unsigned) {
  return note(set_device(device));
}
RUNTIME_API cudaDeviceReset() {
  return note(reset_device());
}
RUNTIME_API cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return note(properties(out, device));
}
RUNTIME_API cudaGetDevice(int* device) {
  if (driver().state != cudaSuccess) return note(driver().state);
  if (device == nullptr) return note(cudaErrorInvalidValue);
  *device = current_device();
  return cudaSuccess;
}
RUNTIME_API cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (driver().state != cudaSuccess) return note(driver().state);
  return note(
      driver().legacy.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
}
RUNTIME_API cudaDeviceCanAccessPeer(int* can, int device, int other) {
  if (driver().state != cudaSuccess) return note(driver().state);
  return note(driver().legacy.cuDeviceCanAccessPeer(can, device, other));
}
RUNTIME_API cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (driver().state != cudaSuccess) return note(driver().state);
  return note(driver().legacy.cuDeviceGetPCIBusId(text, length, device));
}
RUNTIME_FUNCTION(cudaDeviceSynchronize, (), d.cuCtxSynchronize())
RUNTIME_FUNCTION(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest),
                 d.cuCtxGetStreamPriorityRange(least, greatest))
RUNTIME_FUNCTION(cudaDeviceEnablePeerAccess, (int other, unsigned flags),
                 flags != 0 ? cudaErrorInvalidValue : peer(other, true))
RUNTIME_FUNCTION(cudaDeviceDisablePeerAccess, (int other), peer(other, false))

RUNTIME_API cudaGetDriverEntryPointByVersion(char const* name, void** out, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  return note(entry_point(name, out, version, flags, status, false));
}
RUNTIME_API cudaGetDriverEntryPointByVersion_ptsz(char const* name, void** out, unsigned version,
                                                  unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  return note(entry_point(name, out, version, flags, status, true));
}
