// Finds libcuda.so.1 and the real functions in it; see real_symbols.hpp. Called from hooks on any thread and,
// through known(), from inside dlsym while the loader holds its lock: there only the ELF walk is allowed.
#include "shim/symbols/real_symbols.hpp"

#include <dlfcn.h>

#include "core/driver/table.hpp"
#include "shim/symbols/hook_names.hpp"
#include "shim/symbols/objects/startup_data.hpp"

namespace gpumem::shim {
namespace {

GPUMEM_AT_START constinit char driver_soname[] = "libcuda.so.1";

template <typename Function>
void fill(Function& entry, void* address) noexcept {
  entry = reinterpret_cast<Function>(address);
}

}  // namespace

constinit std::atomic<void*> real_symbols::addresses_[driver_hooks] = {};
constinit std::atomic<std::uintptr_t> real_symbols::low_ = 0;
constinit std::atomic<std::uintptr_t> real_symbols::high_ = 0;

elf_object real_symbols::driver_object() noexcept {
  return elf_object::with_soname(driver_soname);
}

// Until the driver is pinned it may be unloaded and come back elsewhere, so nothing is remembered before.
void* real_symbols::known(hook which) noexcept {
  if (void* pinned = addresses_[index_of(which)].load(std::memory_order_acquire)) return pinned;
  return driver_object().function(symbols[index_of(which)].data());
}

void* real_symbols::find(hook which) noexcept {
  if (!adopt()) return nullptr;
  return addresses_[index_of(which)].load(std::memory_order_acquire);
}

void real_symbols::remember(elf_object const& driver) noexcept {
  low_.store(driver.low(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < driver_hooks; ++i) {
    addresses_[i].store(driver.function(symbols[i].data()), std::memory_order_release);
  }
#define GPUMEM_DRIVER(name) fill(driver::real.name, object.function(#name));
#define GPUMEM_DRIVER_OPTIONAL(name, version) GPUMEM_DRIVER(name)
#define GPUMEM_DRIVER_FORMER(entry, symbol, ...) fill(driver::real.entry, object.function(symbol));
  auto const& object = driver;
#include "core/driver/functions.def"
#undef GPUMEM_DRIVER
#undef GPUMEM_DRIVER_OPTIONAL
#undef GPUMEM_DRIVER_FORMER
  high_.store(driver.high(), std::memory_order_release);
}

bool real_symbols::adopt() noexcept {
  if (high_.load(std::memory_order_acquire) != 0) return true;
  elf_object driver = driver_object();
  // By the loaded object's own path where it is loaded. RTLD_NODELETE: every address taken from it stays
  // good.
  void* pinned = driver ? dlopen(driver.path(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)
                        : dlopen(driver_soname, RTLD_LAZY | RTLD_NODELETE);
  if (pinned == nullptr) {
    dlerror();  // the program never asked for this attempt
    return false;
  }
  if (!driver) driver = driver_object();
  if (!driver) return false;
  remember(driver);
  return true;
}

char const* real_symbols::missing_requirement() noexcept {
#define GPUMEM_DRIVER(name) \
  if (driver::real.name == nullptr) return #name;
#define GPUMEM_DRIVER_OPTIONAL(name, version)
#define GPUMEM_DRIVER_FORMER(entry, symbol, ...)
#include "core/driver/functions.def"
#undef GPUMEM_DRIVER
#undef GPUMEM_DRIVER_OPTIONAL
#undef GPUMEM_DRIVER_FORMER
  return nullptr;
}

bool real_symbols::in_driver(void const* code) noexcept {
  std::uintptr_t const high = high_.load(std::memory_order_acquire);
  if (high == 0) return driver_object().contains(code);
  auto const address = reinterpret_cast<std::uintptr_t>(code);
  return address >= low_.load(std::memory_order_relaxed) && address < high;
}

}  // namespace gpumem::shim
