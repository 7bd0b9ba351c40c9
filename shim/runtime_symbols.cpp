// Finds the libcudart that a caller is linked to; see runtime_symbols.hpp. The next definition in load order
// would be wrong twice: a library opened RTLD_LOCAL has its libcudart outside the global scope, and of two
// libcudart it is always the first. Not called under the loader's lock by us, and never from dlsym.
#include "shim/runtime_symbols.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>

#include "shim/elf_object.hpp"
#include "shim/lookup.hpp"

namespace gpumem::shim {
namespace {

constexpr char const* names[] = {
#define GPUMEM_RUNTIME_HOOK(name) #name,
#include "shim/symbols.def"
#undef GPUMEM_RUNTIME_HOOK
};

// Callers that are known, by the range of their object. Written under `busy`, read without: `high` is stored
// last.
struct known_caller {
  std::atomic<std::uintptr_t> low, high;
  std::atomic<void*> function;
};
constinit std::array<std::array<known_caller, 4>, std::size(names)> known_callers{};
constinit std::atomic_flag busy;

// The object's own dependencies, as the loader would search them for it. The program itself is left to the
// load order: its scope begins with this library.
void* find_for(elf_object const& object, char const* name) noexcept {
  void* found = nullptr;
  if (object && object.path()[0] != 0) {
    if (void* handle = dlopen(object.path(), RTLD_LAZY | RTLD_NOLOAD)) {
      found = definition_in(handle, name);
      dlclose(handle);
    }
  }
  if (found == nullptr) found = next_definition(name);
  if (found == nullptr) found = elf_object::with_soname("libcudart.so.").function(name);
  dlerror();  // the program never asked for these attempts
  return found;
}

// Once remembered its code must stay.
void pin(void* function) noexcept {
  auto const object = elf_object::containing(function);
  if (object && object.path()[0] != 0) dlopen(object.path(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

void* runtime_function(hook which, void const* caller) noexcept {
  std::size_t const index = index_of(which) - driver_hooks;
  auto const address = reinterpret_cast<std::uintptr_t>(caller);
  for (auto const& known : known_callers[index]) {
    std::uintptr_t const high = known.high.load(std::memory_order_acquire);
    if (address < high && address >= known.low.load(std::memory_order_relaxed)) {
      return known.function.load(std::memory_order_relaxed);
    }
  }
  auto const object = elf_object::containing(caller);
  void* const found = find_for(object, names[index]);
  if (found == nullptr || !object || busy.test_and_set(std::memory_order_acquire)) return found;
  pin(found);
  for (auto& known : known_callers[index]) {
    if (known.high.load(std::memory_order_relaxed) != 0) continue;
    known.low.store(object.low(), std::memory_order_relaxed);
    known.function.store(found, std::memory_order_relaxed);
    known.high.store(object.high(), std::memory_order_release);
    break;
  }
  busy.clear(std::memory_order_release);
  return found;
}

}  // namespace gpumem::shim
