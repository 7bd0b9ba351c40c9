// Makes what the program's first allocation would wait for and what depends on nothing that it asks: pages of
// memory that appear when they are first written, answers of the system and of the driver, and the first
// context's chain of device memory where that takes nothing when it is made. Each function does so once,
// inside a call of the program's that sets CUDA up and takes a thousand times as long. Takes no device
// memory, and nothing of it shows in the report: a device and a chain are there once they are used.
#pragma once

#include <cuda.h>

#include "core/space/block_registry.hpp"

namespace gpumem::route {

// By start().
void prepare_first_request(space::block_registry& where) noexcept;
// By whichever hook sees the first context made, or at the start in one that is there; it is not to end
// meanwhile. Nothing before the start.
void prepare_first_request_in(CUcontext context) noexcept;

}  // namespace gpumem::route
