// The addresses of the hooks, in the order of symbols.def; see hook_addresses.hpp.
#include "shim/symbols/hook_addresses.hpp"

namespace gpumem::shim {
namespace {

template <typename Function>
void* as_address(Function* function) noexcept {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void* hook_address(hook which) noexcept {
  switch (which) {
#define GPUMEM_DRIVER_HOOK(name, family, version, form, verb, route) \
  case hook::name:                                                   \
    return as_address(&::name);
#include "shim/symbols/symbols.def"
#undef GPUMEM_DRIVER_HOOK
    default:
      return nullptr;
  }
}

}  // namespace gpumem::shim
