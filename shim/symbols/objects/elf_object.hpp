// One loaded object (library or program), read from its own ELF tables: finds a symbol without dlsym, its
// error state, its caller rules and its hooks. Called by the dlsym bootstrap and by real_symbols, any
// thread, also in constructors of half-loaded libraries and before a sanitizer is ready; takes the loader's
// own iteration lock only. Never calls dl* inside a walk. Marked cold so that the linker puts it on one
// page with the rest that runs at the start of every process.
#pragma once

#include <link.h>

#include <cstdint>

namespace gpumem::shim {

class elf_object {
 public:
  // The first loaded object whose SONAME is `soname`, or begins with it when it ends with a dot
  // ("libcudart.so.").
  [[gnu::cold]] static elf_object with_soname(char const* soname) noexcept;
  // The same from the loader's list of the first namespace, without its lock: for what is there from the
  // start. Knows functions only, not addresses.
  [[gnu::cold]] static elf_object listed(char const* soname) noexcept;
  // The function that the first object of that list to define it has: natively a call would go there. Null if
  // none does.
  [[gnu::cold]] static void* first_function(char const* name) noexcept;
  // The object that `address` lies in.
  [[gnu::cold]] static elf_object containing(void const* address) noexcept;
  // True if the object of `first` was loaded before the object of `second`: it comes first in the global
  // scope.
  [[gnu::cold]] static bool precedes(void const* first, void const* second) noexcept;

  // Calls `visit` for each loaded object of this namespace, the program first.
  [[gnu::cold]] static void each(void (*visit)(elf_object const& object, void* argument) noexcept,
                                 void* argument) noexcept;
  // What the loader tells debuggers: its namespaces; null in a program without a dynamic section for it.
  [[gnu::cold]] static r_debug const* loader_state() noexcept;

  elf_object() = default;  // none
  explicit operator bool() const noexcept { return dynamic_ != nullptr; }
  bool contains(void const* address) const noexcept {
    auto const a = reinterpret_cast<std::uintptr_t>(address);
    return a >= low_ && a < high_;
  }
  char const* path() const noexcept {
    return path_;
  }  // the loader's string: valid while the object is loaded
  std::uintptr_t low() const noexcept { return low_; }
  std::uintptr_t high() const noexcept { return high_; }

  // "" where it has none, as programs.
  [[gnu::cold]] char const* soname() const noexcept;
  // The address of an exported function; null if this object does not define it.
  [[gnu::cold]] void* function(char const* name) const noexcept;
  // Calls `visit` for each named import that has a slot, with the address the loader has put there.
  [[gnu::cold]] void each_import(void (*visit)(char const* name, void const* bound, void* argument) noexcept,
                                 void* argument) const noexcept;
  // True if its constant parts hold this text.
  [[gnu::cold]] bool holds(char const* text) const noexcept;

 private:
  [[gnu::cold]] explicit elf_object(dl_phdr_info const& info) noexcept;

  template <typename Type>
  [[gnu::cold]] Type const* table(ElfW(Sxword) tag) const noexcept;
  [[gnu::cold]] void* defined(ElfW(Sym) const& symbol, char const* name) const noexcept;
  [[gnu::cold]] static int visit_soname(dl_phdr_info* info, std::size_t, void* search) noexcept;
  [[gnu::cold]] static int visit_address(dl_phdr_info* info, std::size_t, void* search) noexcept;
  [[gnu::cold]] static int visit_either(dl_phdr_info* info, std::size_t, void* search) noexcept;
  [[gnu::cold]] static int visit_each(dl_phdr_info* info, std::size_t, void* search) noexcept;
  [[gnu::cold]] std::size_t number(ElfW(Sxword) tag) const noexcept;

  std::uintptr_t base_ = 0;
  std::uintptr_t low_ = 0;
  std::uintptr_t high_ = 0;
  ElfW(Dyn) const* dynamic_ = nullptr;
  char const* path_ = "";
  ElfW(Phdr) const* parts_ = nullptr;
  std::size_t part_count_ = 0;
};

}  // namespace gpumem::shim
