// cuMemAdvise and cuMemPrefetchAsync in the form that the driver has. CUDA 12.2 changed both from a device
// to a location; older drivers export only the old form. Also the page size of managed memory. Called by
// upstream/managed and adaptors/prefetch on slow paths, with the context current and in relaxed capture
// mode.
#pragma once

#include <cstdint>

#include "core/driver/table.hpp"

namespace gpumem::driver {

// Advice is kept by the page, and natively no two allocations of managed memory share one (measured).
inline constexpr std::uint64_t managed_page = 4096;

// `device`: CU_DEVICE_CPU for the host.
inline CUmemLocation location_of(CUdevice device) noexcept {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, {0}};
  return {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
}

inline CUresult advise(CUdeviceptr address, std::size_t bytes, CUmem_advise what, CUdevice device) noexcept {
  if (real.cuMemAdvise_v2 != nullptr) return real.cuMemAdvise_v2(address, bytes, what, location_of(device));
  if (real.advise_8000 != nullptr) return real.advise_8000(address, bytes, what, device);
  return CUDA_ERROR_NOT_SUPPORTED;
}

inline CUresult prefetch(CUdeviceptr address, std::size_t bytes, CUdevice device, CUstream stream) noexcept {
  if (real.cuMemPrefetchAsync_v2 != nullptr)
    return real.cuMemPrefetchAsync_v2(address, bytes, location_of(device), 0, stream);
  if (real.prefetch_8000 != nullptr) return real.prefetch_8000(address, bytes, device, stream);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace gpumem::driver
