// Whether a device decompresses by hardware (Blackwell). What cuMemAlloc makes there can be its buffer; other
// memory only if it was made with a flag that says so (cuda.h, cuMemBatchDecompressAsync). By numbers, which
// old headers lack names for. Any thread; one driver call.
#pragma once

#include "core/driver/question.hpp"
#include "core/driver/table.hpp"

namespace gpumem::upstream {

// CU_MEM_CREATE_USAGE_HW_DECOMPRESS, and CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS.
inline constexpr unsigned short for_decompression = 0x2;

inline bool decompresses(CUdevice device) noexcept {
  constexpr auto algorithms = static_cast<CUdevice_attribute>(136);  // MEM_DECOMPRESS_ALGORITHM_MASK, 12.8
  int mask = 0;
  return driver::real.cuDeviceGetAttribute != nullptr &&
         driver::asked(driver::real.cuDeviceGetAttribute, &mask, algorithms, device) == CUDA_SUCCESS &&
         mask != 0;
}

}  // namespace gpumem::upstream
