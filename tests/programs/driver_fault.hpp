// A fault of the device, by the driver API alone: a kernel that writes where nobody has memory, which the
// driver compiles from the text here; or the simulated driver's. Used by dead_context, from any thread; the
// context is lost for good.
#pragma once

#include <cuda.h>

#include "tests/programs/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace programs {

inline constexpr const char* write_nowhere = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry nowhere() {
  .reg .b64 %where;
  .reg .b32 %what;
  mov.u64 %where, 16;
  mov.u32 %what, 1;
  st.global.u32 [%where], %what;
  ret;
}
)";

inline void fault_on(CUstream stream) {
  if (simulated_control::present()) {
    REQUIRE(simulated_control::fault(stream, CUDA_ERROR_ILLEGAL_ADDRESS, 1000));
    return;
  }
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  REQUIRE(cuModuleLoadData(&module, write_nowhere));
  REQUIRE(cuModuleGetFunction(&kernel, module, "nowhere"));
  REQUIRE(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
}

}  // namespace programs
