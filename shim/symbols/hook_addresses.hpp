// The address that a hook has for programs. One table, so that the exported name, dlsym and cuGetProcAddress
// can never hand out different addresses. Constant; read from any thread.
#pragma once

#include "shim/symbols/hook.hpp"

namespace gpumem::shim {

void* hook_address(hook which) noexcept;

}  // namespace gpumem::shim
