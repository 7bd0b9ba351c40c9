// An address that is nobody's. What the driver says of it is what it says before it looks at memory, of
// contexts, captures and streams, or that there is none there: the program's answer where a call names memory
// that it has not, in the driver's own order. Any thread.
#pragma once

#include <cuda.h>

namespace gpumem::driver {

inline constexpr CUdeviceptr nobodys = 1;

// Whatever the driver makes of that address, the program has no memory there.
constexpr CUresult refusal(CUresult said) noexcept {
  return said != CUDA_SUCCESS ? said : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace gpumem::driver
