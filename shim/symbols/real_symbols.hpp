// The real functions behind the hooked driver names, found once in the loaded libcuda.so.1 by walking its
// symbol table, and the driver table of core, filled from the same object. Read by every hook on every
// thread; finding is idempotent and takes no lock of ours. A name that an old driver lacks stays null: the
// hook then answers "not found".
#pragma once

#include <atomic>

#include "shim/symbols/hook.hpp"
#include "shim/symbols/objects/elf_object.hpp"

namespace gpumem::shim {

class real_symbols {
 public:
  // libcuda as loaded now; empty while no driver is loaded. Safe inside dlsym.
  static elf_object driver_object() noexcept;
  // The driver's own address for a hooked driver name; null when there is none. Safe inside dlsym.
  static void* known(hook which) noexcept;

  // As known(), and loads the driver when nobody has. Not to be called inside dlsym.
  static void* address(hook which) noexcept {
    void* found = addresses_[index_of(which)].load(std::memory_order_acquire);
    return found != nullptr ? found : find(which);
  }

  // Keeps the driver loaded for good and fills core's table; false when there is no driver. Idempotent.
  static bool adopt() noexcept;

  // A function that core needs and this driver lacks; null when it has them all. After adopt().
  static char const* missing_requirement() noexcept;

  // True if `code` lies in libcuda: what the driver asks for itself must not be answered with a hook.
  static bool in_driver(void const* code) noexcept;

 private:
  static void* find(hook which) noexcept;
  static void remember(elf_object const& driver) noexcept;

  static std::atomic<void*> addresses_[driver_hooks];
  static std::atomic<std::uintptr_t> low_, high_;  // where the pinned libcuda lies
};

// Calls the real function of a hook; `Function` is the type of the hook itself.
template <typename Function>
class real_function;

template <typename... Arguments>
class real_function<CUresult (*)(Arguments...)> {
 public:
  explicit real_function(hook which) noexcept
      : function_(reinterpret_cast<CUresult (*)(Arguments...)>(real_symbols::address(which))) {}

  CUresult operator()(Arguments... arguments) const {
    return function_ != nullptr ? function_(arguments...) : missing();
  }

 private:
  // No driver at all: what a stub of it answers. A driver too old for this name: what its users test for.
  static CUresult missing() noexcept {
    return real_symbols::driver_object() ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_NOT_INITIALIZED;
  }

  CUresult (*function_)(Arguments...);
};

}  // namespace gpumem::shim

// The real function of a hook, ready to be called: GPUMEM_REAL(cuMemFree_v2)(address).
#define GPUMEM_REAL(name) (::gpumem::shim::real_function<decltype(&::name)>(::gpumem::shim::hook::name))
