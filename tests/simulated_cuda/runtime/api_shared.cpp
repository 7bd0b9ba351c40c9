// Memory pools, IPC, pointer attributes.
// Any thread.
// Attribute values of the runtime equal the driver's; only the structures differ.
#include <cstring>

#include "driver.hpp"

using namespace simulated_runtime;

namespace {

cudaError_t create_pool(driver_table const& d, cudaMemPool_t* out, cudaMemPoolProps const* asked) {
  if (out == nullptr || asked == nullptr) return cudaErrorInvalidValue;
  CUmemPoolProps properties = {};
  properties.allocType = static_cast<CUmemAllocationType>(asked->allocType);
  properties.handleTypes = static_cast<CUmemAllocationHandleType>(asked->handleTypes);
  properties.location.type = static_cast<CUmemLocationType>(asked->location.type);
  properties.location.id = asked->location.id;
  properties.maxSize = asked->maxSize;
  return static_cast<cudaError_t>(d.cuMemPoolCreate(out, &properties));
}

cudaError_t attributes(driver_table const& d, cudaPointerAttributes* out, void const* pointer) {
  if (out == nullptr) return cudaErrorInvalidValue;
  CUmemorytype type = {};
  int managed = 0, device = -2;
  CUdeviceptr on_device = 0;
  void* on_host = nullptr;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* data[] = {&type, &managed, &device, &on_device, &on_host};
  CUresult const code = d.cuPointerGetAttributes(5, asked, data, number(pointer));
  if (code != CUDA_SUCCESS) return static_cast<cudaError_t>(code);
  std::memset(out, 0, sizeof *out);
  out->type = managed != 0                   ? cudaMemoryTypeManaged
              : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
              : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                             : cudaMemoryTypeUnregistered;
  out->device = device;
  out->devicePointer = reinterpret_cast<void*>(on_device);
  out->hostPointer = on_host;
  return cudaSuccess;
}

}  // namespace

RUNTIME_FUNCTION(cudaMemPoolCreate, (cudaMemPool_t * out, cudaMemPoolProps const* asked),
                 create_pool(d, out, asked))
RUNTIME_FUNCTION(cudaMemPoolDestroy, (cudaMemPool_t pool), d.cuMemPoolDestroy(pool))
RUNTIME_FUNCTION(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), d.cuMemPoolTrimTo(pool, keep))
RUNTIME_FUNCTION(cudaMemPoolSetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
                 d.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value))
RUNTIME_FUNCTION(cudaMemPoolGetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
                 d.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value))
RUNTIME_FUNCTION(cudaMemPoolSetAccess, (cudaMemPool_t pool, cudaMemAccessDesc const* access, size_t count),
                 d.cuMemPoolSetAccess(pool, reinterpret_cast<CUmemAccessDesc const*>(access), count))
RUNTIME_FUNCTION(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * out, int device),
                 d.cuDeviceGetDefaultMemPool(out, device))
RUNTIME_FUNCTION(cudaDeviceGetMemPool, (cudaMemPool_t * out, int device), d.cuDeviceGetMemPool(out, device))
RUNTIME_FUNCTION(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), d.cuDeviceSetMemPool(device, pool))

RUNTIME_FUNCTION(cudaPointerGetAttributes, (cudaPointerAttributes * out, void const* pointer),
                 attributes(d, out, pointer))
RUNTIME_FUNCTION(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * out, void* memory),
                 d.cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(out), number(memory)))
RUNTIME_FUNCTION(cudaIpcOpenMemHandle, (void** out, cudaIpcMemHandle_t handle, unsigned flags),
                 d.cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(out),
                                      *reinterpret_cast<CUipcMemHandle const*>(&handle), flags))
RUNTIME_FUNCTION(cudaIpcCloseMemHandle, (void* memory), d.cuIpcCloseMemHandle(number(memory)))
