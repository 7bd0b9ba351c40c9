// The names of symbols.def in the order of the hooks: symbols, the families by which cuGetProcAddress knows
// them, routes. Constants; any thread.
#pragma once

#include "core/base/text/packed_names.hpp"
#include "shim/symbols/hook.hpp"

namespace gpumem::shim {

inline constexpr auto symbols = base::pack_names<all_calls>(
#define GPUMEM_DRIVER_HOOK(name, family, version, form, verb, route) #name "\0"
#define GPUMEM_RUNTIME_HOOK(name) #name "\0"
#define GPUMEM_INTERFACE_CALL(name, route) #name "\0"
#include "shim/symbols/symbols.def"
#undef GPUMEM_DRIVER_HOOK
#undef GPUMEM_RUNTIME_HOOK
#undef GPUMEM_INTERFACE_CALL
);

inline constexpr auto families = base::pack_names<driver_hooks>(
#define GPUMEM_DRIVER_HOOK(name, family, version, form, verb, route) #family "\0"
#include "shim/symbols/symbols.def"
#undef GPUMEM_DRIVER_HOOK
);

inline constexpr auto routes = base::pack_names<all_calls>(
#define GPUMEM_DRIVER_HOOK(name, family, version, form, verb, route) #route "\0"
#define GPUMEM_RUNTIME_HOOK(name) "runtime\0"
#define GPUMEM_INTERFACE_CALL(name, route) #route "\0"
#include "shim/symbols/symbols.def"
#undef GPUMEM_DRIVER_HOOK
#undef GPUMEM_RUNTIME_HOOK
#undef GPUMEM_INTERFACE_CALL
);

}  // namespace gpumem::shim
