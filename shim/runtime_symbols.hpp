// The real functions behind the hooked names of the CUDA runtime. A process may hold several libcudart; each
// caller gets the one it is linked to. Called by hooks_runtime on any thread; slow only the first time for
// each calling object.
#pragma once

#include "shim/hook.hpp"

namespace gpumem::shim {

// Null when no libcudart defines it.
void* runtime_function(hook which, void const* caller) noexcept;

}  // namespace gpumem::shim
