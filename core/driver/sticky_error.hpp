// Which codes say that a context is lost, or gone: a kernel of it failed, or its device did, and every later
// call about its work or memory gives the same code (cuda.h: "leaves the process in an inconsistent state").
// Any thread; no driver call.
#pragma once

#include <cuda.h>

namespace gpumem::driver {

constexpr bool is_sticky(CUresult code) noexcept {
  switch (static_cast<int>(code)) {  // by their numbers where old headers lack the names
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case 226:  // CUDA_ERROR_CONTAINED
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case 721:  // CUDA_ERROR_TENSOR_MEMORY_LEAK
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return true;
    default:
      return false;
  }
}

// The context, or the whole driver, is gone, and what was in it.
constexpr bool is_of_no_context(CUresult code) noexcept {
  return code == CUDA_ERROR_DEINITIALIZED || code == CUDA_ERROR_INVALID_CONTEXT ||
         code == CUDA_ERROR_CONTEXT_IS_DESTROYED || code == CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace gpumem::driver
