// Finds the libcudart that a caller is linked to; see runtime_symbols.hpp. The next definition in load order
// would be wrong twice: a library opened RTLD_LOCAL has its libcudart outside the global scope, and of two
// libcudart it is always the first. It is right for a tool in front of this library that wraps a function of
// the runtime, and called us as its next. Not called under the loader's lock by us, and never from dlsym.
#include "shim/symbols/runtime_symbols.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/stats/callers/libraries.hpp"
#include "shim/symbols/hook_names.hpp"
#include "shim/symbols/lookup.hpp"
#include "shim/symbols/objects/elf_object.hpp"
#include "shim/symbols/objects/known_objects.hpp"
#include "shim/symbols/runtime_calls.hpp"

namespace gpumem::shim {
namespace {

constinit std::array<known_objects<void*, 16>, all_hooks - driver_hooks> functions_of_callers{};
constinit known_objects<bool, 4> runtimes{};  // those that stay loaded

// What is found there would call this library again, and that for ever: a wrapper's own function, or that of
// another wrapper, or of another copy of this library.
bool is_in_front_of_us(void const* function) noexcept {
  return elf_object::precedes(function, reinterpret_cast<void const*>(&is_in_front_of_us));
}

// The object's own dependencies, as the loader would search them for it. The program itself is left to the
// load order: its scope begins with this library.
void* find_for(elf_object const& object, hook which) noexcept {
  char const* const name = symbols[index_of(which)].data();
  void* found = nullptr;
  if (object && object.path()[0] != 0) {
    if (void* handle = dlopen(object.path(), RTLD_LAZY | RTLD_NOLOAD)) {
      found = definition_in(handle, name);
      close_unseen(handle);
    }
  }
  if (is_in_front_of_us(found)) found = nullptr;
  if (found == nullptr) found = next_definition(name);
  if (found == nullptr) found = elf_object::with_soname(library_of(which)).function(name);
  dlerror();  // the program never asked for these attempts
  return found;
}

// The hooks that answer where they are, without a call of the function behind them.
constexpr hook answering[] = {hook::cudaMalloc, hook::cudaMallocAsync, hook::cudaMallocAsync_ptsz,
                              hook::cudaFree,   hook::cudaFreeAsync,   hook::cudaFreeAsync_ptsz};

// A wrapper counts, checks or changes what it passes on: it must see every call, and not some.
void leave_calls_to_wrapper(void const* function) noexcept {
  if (function == nullptr || runtimes.find(function)) return;
  if (!is_runtime(elf_object::containing(function))) leave_all_calls_to_runtime();
}

// Once remembered its code must stay.
void pin(void* function) noexcept {
  auto const object = elf_object::containing(function);
  if (!object || object.path()[0] == 0) return;
  dlopen(object.path(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (!runtimes.find(function) && is_runtime(object)) runtimes.remember(object, true);
}

}  // namespace

char const* library_of(hook which) noexcept {
  return is_profiler(which) ? "libcupti.so." : "libcudart.so.";
}

// By its name, also one with a hash in it, as Python's wheels have; or as a part of another object.
bool is_runtime(elf_object const& object) noexcept {
  if (!object) return false;
  if (std::string_view(object.soname()).starts_with("libcudart")) return true;
  return object.function("cudaRuntimeGetVersion") != nullptr &&
         object.function("__cudaRegisterFatBinary") != nullptr;
}

void look_for_wrappers() noexcept {
  for (hook const which : answering) leave_calls_to_wrapper(next_definition(symbols[index_of(which)].data()));
  dlerror();  // the program never asked for these attempts
}

void* definition_for(hook which, void const* caller) noexcept {
  return find_for(elf_object::containing(caller), which);
}

void* runtime_function(hook which, void const* caller) noexcept {
  std::size_t const index = index_of(which) - driver_hooks;
  auto const now = stats::libraries_changed.load(std::memory_order_acquire);
  if (auto const known = functions_of_callers[index].find(caller, now)) return *known;
  auto const object = elf_object::containing(caller);
  void* const found = find_for(object, which);
  if (std::ranges::find(answering, which) != std::end(answering)) leave_calls_to_wrapper(found);
  if (found == nullptr || !object) return found;
  pin(found);
  if (!stats::may_remember_libraries()) return found;
  functions_of_callers[index].remember(object, found, now);
  return found;
}

}  // namespace gpumem::shim
