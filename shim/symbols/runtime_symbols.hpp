// The real functions behind the hooked names of the CUDA runtime. A process may hold several libcudart; each
// caller gets the one it is linked to. Called by hooks_runtime on any thread; slow only the first time for
// each calling object.
#pragma once

#include "shim/symbols/hook.hpp"
#include "shim/symbols/objects/elf_object.hpp"

namespace gpumem::shim {

// Null when no libcudart defines it.
void* runtime_function(hook which, void const* caller) noexcept;
// The same, also for libcupti, without remembering it: slow each time.
void* definition_for(hook which, void const* caller) noexcept;
// Where a runtime hook's real function is, as the beginning of a SONAME.
char const* library_of(hook which) noexcept;
// A CUDA runtime, and no library that wraps its functions.
bool is_runtime(elf_object const& object) noexcept;
// Looks whether the next function behind one of our hooks that answer for the runtime is a wrapper of it, to
// which all calls must go then; runtime_function() does so for what it finds.
void look_for_wrappers() noexcept;

}  // namespace gpumem::shim
