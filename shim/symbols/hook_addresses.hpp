// The address that programs get for a hook. One table, so that the exported name, dlsym and
// cuGetProcAddress never hand out different addresses. Constant; any thread.
#pragma once

#include "shim/symbols/hook.hpp"

namespace gpumem::shim {

// Of our function that stands in for this one.
void* hook_address(hook which) noexcept;

}  // namespace gpumem::shim
