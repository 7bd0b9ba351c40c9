// Start-up, devices, error names.
// Any thread; see entry.hpp.
// The device pretends to be a modern data centre GPU; only what memory code asks for is answered with care.
#include <cstdio>
#include <cstring>

#include "entry.hpp"

using namespace simulated;

namespace {

bool known(machine& m, CUdevice device) {
  return device >= 0 && device < m.device_count();
}

struct error_text {
  CUresult code;
  char const* name;
  char const* text;
};

constexpr error_text errors[] = {
#define SIMULATED_ERROR(code, text) \
  { code, #code, text }
    SIMULATED_ERROR(CUDA_SUCCESS, "no error"),
    SIMULATED_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    SIMULATED_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    SIMULATED_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    SIMULATED_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    SIMULATED_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    SIMULATED_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    SIMULATED_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    SIMULATED_ERROR(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    SIMULATED_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                    "peer access is not supported between these two devices"),
    SIMULATED_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    SIMULATED_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    SIMULATED_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    SIMULATED_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    SIMULATED_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    SIMULATED_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    SIMULATED_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    SIMULATED_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                    "part or all of the requested memory range is already mapped"),
    SIMULATED_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                    "pointer does not correspond to a registered memory region"),
    SIMULATED_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    SIMULATED_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    SIMULATED_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                    "operation not permitted when stream is capturing"),
    SIMULATED_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                    "operation failed due to a previous error during capture"),
    SIMULATED_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                    "operation failed because the capture began on another stream"),
    SIMULATED_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    SIMULATED_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                    "dependency created on uncaptured work in another stream"),
    SIMULATED_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                    "operation would make the legacy stream depend on a capturing blocking stream"),
    SIMULATED_ERROR(CUDA_ERROR_CAPTURED_EVENT,
                    "operation not permitted on an event last recorded in a capturing stream"),
    SIMULATED_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                    "attempt to terminate a thread-local capture sequence from another thread"),
    SIMULATED_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef SIMULATED_ERROR
};

CUresult describe(CUresult code, char const** out, char const* error_text::*part) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (error_text const& each : errors) {
    if (each.code != code) continue;
    *out = each.*part;
    return CUDA_SUCCESS;
  }
  *out = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

SIMULATED_API cuInit(unsigned flags) {
  SIMULATED_CALL(any_time);
  return flags == 0 ? m.initialise() : CUDA_ERROR_INVALID_VALUE;
}

SIMULATED_API cuDriverGetVersion(int* version) {
  SIMULATED_CALL(any_time);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = m.version();
  return CUDA_SUCCESS;
}

SIMULATED_API cuGetErrorName(CUresult code, char const** out) {
  return describe(code, out, &error_text::name);
}
SIMULATED_API cuGetErrorString(CUresult code, char const** out) {
  return describe(code, out, &error_text::text);
}

SIMULATED_API cuGetExportTable(void const** table, CUuuid const*) {
  SIMULATED_CALL(any_time);
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

SIMULATED_API cuDeviceGetCount(int* count) {
  SIMULATED_CALL(after_init);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = m.device_count();
  return CUDA_SUCCESS;
}

SIMULATED_API cuDeviceGet(CUdevice* device, int ordinal) {
  SIMULATED_CALL(after_init);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known(m, ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIMULATED_API cuDeviceGetName(char* name, int length, CUdevice device) {
  SIMULATED_CALL(after_init);
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!known(m, device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<std::size_t>(length), "Simulated GPU");
  return CUDA_SUCCESS;
}

static CUresult uuid_of(machine& m, CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known(m, device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid, 0, sizeof *uuid);
  std::memcpy(uuid->bytes, "simulated-gpu", 13);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

SIMULATED_API cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  SIMULATED_CALL(after_init);
  return uuid_of(m, uuid, device);
}

SIMULATED_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  SIMULATED_CALL(after_init);
  return uuid_of(m, uuid, device);
}

SIMULATED_API cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  SIMULATED_CALL(after_init);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known(m, device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = m.memory_.of(device).capacity();
  return CUDA_SUCCESS;
}

SIMULATED_API cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  SIMULATED_CALL(after_init);
  if (text == nullptr || length < 13) return CUDA_ERROR_INVALID_VALUE;
  if (!known(m, device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return CUDA_SUCCESS;
}

SIMULATED_API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  SIMULATED_CALL(after_init);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known(m, device)) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      *value = 512;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = device + 1;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
      *value = m.pageable_;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  SIMULATED_CALL(after_init);
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known(m, device) || !known(m, peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}
