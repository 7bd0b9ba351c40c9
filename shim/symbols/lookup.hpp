// What dlsym, dlvsym and cuGetProcAddress answer for a hooked name, and the way to the next dlsym behind this
// library. Called from the assembly stubs under the loader's lock, on any thread, before any constructor:
// takes no lock of ours, uses no heap, logs nothing, opens nothing, and makes no failing look-up that the
// program did not ask for.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/symbols/hook.hpp"

namespace gpumem::shim {

// The address to hand out when the driver says that `found` is the function known to cuGetProcAddress as
// `family`. Only the very function that a hook forwards to is exchanged, so versions and per-thread forms
// cannot be mixed up.
void* hook_for_family(char const* family, void* found) noexcept;

// CUDA runtimes, shared or static, that asked the driver for their functions: each begins with an empty name.
inline std::atomic<unsigned> runtimes_started{0};

// What is handed out for the function that NVTX starts a tool by; null: that itself.
inline std::atomic<void* (*)(void* found)> exchange_injection{nullptr};

// False: something has opened this library, and its hooks are nobody's.
[[gnu::cold]] bool is_preloaded() noexcept;
// True: another copy of this library is in front, and has the program's calls; this one leaves all to it.
[[gnu::cold]] bool is_second_copy() noexcept;

// dlsym(RTLD_NEXT, name) as seen from this library: the next definition in load order; null if there is none.
void* next_definition(char const* name) noexcept;
// dlclose without our own hook in between: what was opened a moment ago, and is loaded still, does not go.
int close_unseen(void* handle) noexcept;
// dlsym(handle, name) without our own hook in between.
void* definition_in(void* handle, char const* name) noexcept;

}  // namespace gpumem::shim

extern "C" {

// In two registers: the answer, and whether it is one (otherwise the stub jumps on to the real function).
struct gpumem_lookup_answer {
  void* address;
  std::uintptr_t final;
};

gpumem_lookup_answer gpumem_answer_dlsym(void* handle, char const* name, char const* unused,
                                         void const* caller) noexcept;
gpumem_lookup_answer gpumem_answer_dlvsym(void* handle, char const* name, char const* version,
                                          void const* caller) noexcept;
[[gnu::cold]] void gpumem_find_next_lookup() noexcept;
}
