// The C++ half of dlsym and dlvsym, and the tables they and cuGetProcAddress use; see lookup.hpp for what
// must not happen here. The tables are constants sorted by the compiler.
#include "shim/symbols/lookup.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

#include "shim/symbols/hook_addresses.hpp"
#include "shim/symbols/hook_names.hpp"
#include "shim/symbols/objects/elf_object.hpp"
#include "shim/symbols/objects/startup_data.hpp"
#include "shim/symbols/real_symbols.hpp"
#include "shim/symbols/runtime_calls.hpp"
#include "shim/symbols/runtime_symbols.hpp"

extern "C" {
// Where this library begins and ends, by the linker.
[[gnu::visibility("hidden")]] extern char const __ehdr_start;
[[gnu::visibility("hidden")]] extern char const _end;
// The assembly stubs jump through these; null until found.
GPUMEM_AT_START constinit std::atomic<void*> gpumem_next_dlsym = nullptr;
GPUMEM_AT_START constinit std::atomic<void*> gpumem_next_dlvsym = nullptr;
}

namespace gpumem::shim {
namespace {

constexpr auto symbol_of = [](hook which) { return symbols[index_of(which)]; };
constexpr auto family_of = [](hook which) { return families[index_of(which)]; };

template <std::size_t Size, typename Name>
consteval std::array<hook, Size> sorted_by(Name name) {
  std::array<hook, Size> hooks{};
  for (std::size_t i = 0; i < Size; ++i) hooks[i] = static_cast<hook>(i);
  std::ranges::sort(hooks, {}, name);
  return hooks;
}

constexpr auto by_symbol = sorted_by<all_hooks>(symbol_of);
constexpr auto by_family = sorted_by<driver_hooks>(family_of);

// Not strcmp, which the caller may be looking for: see elf_object.cpp.
int compare(char const* one, char const* other) noexcept {
  for (; *one != 0 && *one == *other; ++one, ++other) {
  }
  return static_cast<unsigned char>(*one) - static_cast<unsigned char>(*other);
}

hook find_name(char const* name) noexcept {
  auto const before = [](hook which, char const* wanted) {
    return compare(symbol_of(which).data(), wanted) < 0;
  };
  auto const found = std::lower_bound(by_symbol.begin(), by_symbol.end(), name, before);
  return found != by_symbol.end() && compare(symbol_of(*found).data(), name) == 0 ? *found : hook::count;
}

bool is_driver(hook which) noexcept {
  return index_of(which) < driver_hooks;
}

using lookup_function = void* (*)(void*, char const*);
using versioned_lookup_function = void* (*)(void*, char const*, char const*);

void* no_lookup() noexcept {
  return nullptr;
}

void* next(void* handle, char const* name) noexcept {
  gpumem_find_next_lookup();
  return reinterpret_cast<lookup_function>(gpumem_next_dlsym.load(std::memory_order_acquire))(handle, name);
}

void* next(void* handle, char const* name, char const* version) noexcept {
  gpumem_find_next_lookup();
  return reinterpret_cast<versioned_lookup_function>(gpumem_next_dlvsym.load(std::memory_order_acquire))(
      handle, name, version);
}

constexpr gpumem_lookup_answer jump_on{nullptr, 0};

// A tool that is loaded before us and looks for the next dlsym by version would be given libc's, as ours has
// none. A tool behind us must not be given ours: we are going to call it.
gpumem_lookup_answer answer_for_tool(void* handle, char const* name, void const* caller) noexcept {
  bool const plain = compare(name, "dlsym") == 0;
  if (handle != RTLD_NEXT || (!plain && compare(name, "dlvsym") != 0)) return jump_on;
  auto* const ours = reinterpret_cast<void*>(&gpumem_find_next_lookup);
  if (!elf_object::precedes(caller, ours)) return jump_on;
  return {plain ? reinterpret_cast<void*>(&dlsym) : reinterpret_cast<void*>(&dlvsym), 1};
}

bool is_present(hook which) noexcept {
  return bool(is_driver(which) ? real_symbols::driver_object() : elf_object::with_soname(library_of(which)));
}

bool is_ours(void const* function) noexcept {
  return function >= &__ehdr_start && function < &_end;
}

// The global scope holds our exports. A program that probes for CUDA must not find it where there is none.
template <typename Ask>
gpumem_lookup_answer answer_probe(void* handle, hook which, Ask ask) noexcept {
  if (is_present(which)) return jump_on;
  void* const behind_us = ask(RTLD_NEXT);
  if (behind_us != nullptr && handle == RTLD_NEXT) return jump_on;
  return {behind_us, 1};
}

// NVTX asks for the tool that it is to tell of ranges: phases want to hear of them too.
template <typename Ask>
gpumem_lookup_answer answer_for_ranges(void* handle, char const* name, Ask ask) noexcept {
  auto const exchange = exchange_injection.load(std::memory_order_acquire);
  if (exchange == nullptr || handle == RTLD_DEFAULT || handle == RTLD_NEXT) return jump_on;
  if (compare(name, "InitializeInjectionNvtx2") != 0) return jump_on;
  void* const found = ask(handle);
  if (found == nullptr) return jump_on;  // again, for dlerror
  return {exchange(found), 1};
}

template <typename Ask>
gpumem_lookup_answer answer(void* handle, char const* name, void const* caller, Ask ask) noexcept {
  if (name[0] == 'd') return answer_for_tool(handle, name, caller);
  if (name[0] == 'I') return answer_for_ranges(handle, name, ask);
  hook const which = find_name(name);
  if (which == hook::count || is_second_copy()) return jump_on;
  // A profiler that looks libcupti's functions up will call them without our knowledge.
  if (is_profiler(which)) leave_all_calls_to_runtime();
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) return answer_probe(handle, which, ask);
  if (is_driver(which) ? real_symbols::in_driver(caller) : is_present(which)) return jump_on;
  void* const found = ask(handle);
  if (found == nullptr) return jump_on;  // again, so that dlerror speaks of the program's own call
  // The handle of the program itself stands for the global scope.
  bool const ours = is_driver(which) ? found == hook_address(which) : is_ours(found);
  if (ours && !is_present(which)) return {ask(RTLD_NEXT), 1};
  if (!is_driver(which)) return {found, 1};
  return {found == real_symbols::known(which) ? hook_address(which) : found, 1};
}

}  // namespace

void* hook_for_family(char const* family, void* found) noexcept {
  std::string_view const wanted(family);
  auto each = std::ranges::lower_bound(by_family, wanted, {}, family_of);
  for (; each != by_family.end() && family_of(*each) == wanted; ++each) {
    if (real_symbols::known(*each) == found) return hook_address(*each);
  }
  return found;
}

bool is_preloaded() noexcept {
  void const* const libcs = elf_object::listed("libc.so.6").function("getpid");
  return elf_object::precedes(reinterpret_cast<void const*>(&gpumem_find_next_lookup), libcs);
}

// Copies are in the loader's list from the start, or never in front.
bool is_second_copy() noexcept {
  enum : int { unknown, first, second };
  GPUMEM_AT_START static constinit std::atomic<int> known = unknown;
  if (int const is = known.load(std::memory_order_relaxed); is != unknown) return is == second;
  GPUMEM_AT_START static constinit char name[] = "gpumem_api_version";
  bool const other = is_preloaded() && !is_ours(elf_object::first_function(name));
  known.store(other ? second : first, std::memory_order_relaxed);
  return other;
}

void* next_definition(char const* name) noexcept {
  return next(RTLD_NEXT, name);
}
int close_unseen(void* handle) noexcept {
  static constinit std::atomic<int (*)(void*)> known{nullptr};
  auto* real = known.load(std::memory_order_acquire);
  if (real == nullptr) {
    real = reinterpret_cast<int (*)(void*)>(next_definition("dlclose"));
    if (real == nullptr) return -1;
    known.store(real, std::memory_order_release);
  }
  return real(handle);
}
void* definition_in(void* handle, char const* name) noexcept {
  return next(handle, name);
}

}  // namespace gpumem::shim

extern "C" {

gpumem_lookup_answer gpumem_answer_dlsym(void* handle, char const* name, char const*,
                                         void const* caller) noexcept {
  using namespace gpumem::shim;
  return answer(handle, name, caller, [name](void* from) noexcept { return next(from, name); });
}

gpumem_lookup_answer gpumem_answer_dlvsym(void* handle, char const* name, char const* version,
                                          void const* caller) noexcept {
  using namespace gpumem::shim;
  return answer(handle, name, caller,
                [name, version](void* from) noexcept { return next(from, name, version); });
}

// libc's own functions are found without dlsym, because any reference to dlsym or dlvsym would come back to
// us. From there the next interposer behind us, if any, is asked for: it wants to see the calls as well.
void gpumem_find_next_lookup() noexcept {
  using namespace gpumem::shim;
  GPUMEM_AT_START static constinit char libc[] = "libc.so.6", dlsym_name[] = "dlsym",
                                        dlvsym_name[] = "dlvsym";
  if (gpumem_next_dlvsym.load(std::memory_order_acquire) != nullptr) return;
  auto object = elf_object::listed(libc);
  void* plain = object.function(dlsym_name);
  if (plain == nullptr) {  // glibc before 2.34
    object = elf_object::listed("libdl.so.2");
    plain = object.function(dlsym_name);
  }
  void* versioned = object.function(dlvsym_name);
  if (plain == nullptr || versioned == nullptr) {
    plain = versioned = reinterpret_cast<void*>(&no_lookup);
  } else {
    auto const ask = reinterpret_cast<lookup_function>(plain);
    void* const next_plain = ask(RTLD_NEXT, dlsym_name);
    void* const next_versioned = ask(RTLD_NEXT, dlvsym_name);
    if (next_plain != nullptr && !is_ours(next_plain)) plain = next_plain;
    if (next_versioned != nullptr && !is_ours(next_versioned)) versioned = next_versioned;
  }
  gpumem_next_dlsym.store(plain, std::memory_order_release);
  gpumem_next_dlvsym.store(versioned, std::memory_order_release);
}
}

namespace {
[[gnu::constructor(101)]] void find_next_lookup_at_load() {
  gpumem_find_next_lookup();
}
}  // namespace
