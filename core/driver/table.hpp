// The real driver functions that core may call. Filled once by the shim (in tests: by whoever plays the
// driver) before any other part of core runs, then read-only, from any thread. Never call a function of the
// CUDA runtime from core, and never a hooked name: both would come back to us.
#pragma once

#include <cuda.h>

#include <type_traits>

namespace gpumem::driver {

// cuda.h maps old names to new ones by macro (cuMemAlloc -> cuMemAlloc_v2); the real types come from the
// symbol itself.
struct table {
#define GPUMEM_DRIVER(name) decltype(&::name) name = nullptr;
#define GPUMEM_DRIVER_OPTIONAL(name, version) GPUMEM_DRIVER(name)
#define GPUMEM_DRIVER_FORMER(entry, symbol, ...) std::type_identity_t<__VA_ARGS__> entry = nullptr;
#include "core/driver/functions.def"
#undef GPUMEM_DRIVER
#undef GPUMEM_DRIVER_OPTIONAL
#undef GPUMEM_DRIVER_FORMER
};

// The one table of this process.
inline table real;

}  // namespace gpumem::driver
