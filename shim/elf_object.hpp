// One loaded object (library or program), read from its own ELF tables: finds a symbol without dlsym, so
// without its error state, its caller rules and its hooks. Called by the dlsym bootstrap and by real_symbols,
// from any thread, also in constructors of half-loaded libraries; takes the loader's own iteration lock only.
// Never calls dl* inside a walk.
#pragma once

#include <link.h>

#include <cstdint>

namespace gpumem::shim {

class elf_object {
 public:
  // The first loaded object whose SONAME is `soname`, or begins with it when it ends with a dot
  // ("libcudart.so.").
  static elf_object with_soname(char const* soname) noexcept;
  // The object that `address` lies in.
  static elf_object containing(void const* address) noexcept;
  // True if the object of `first` was loaded before the object of `second`: it comes first in the global
  // scope.
  static bool precedes(void const* first, void const* second) noexcept;

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

  // The address of an exported function; null if this object does not define it.
  void* function(char const* name) const noexcept;

 private:
  explicit elf_object(dl_phdr_info const& info) noexcept;
  elf_object() = default;

  template <typename Type>
  Type const* table(ElfW(Sxword) tag) const noexcept;
  char const* soname() const noexcept;
  void* defined(ElfW(Sym) const& symbol, char const* name) const noexcept;
  static int visit_soname(dl_phdr_info* info, std::size_t, void* search) noexcept;
  static int visit_address(dl_phdr_info* info, std::size_t, void* search) noexcept;
  static int visit_either(dl_phdr_info* info, std::size_t, void* search) noexcept;

  std::uintptr_t base_ = 0;
  std::uintptr_t low_ = 0;
  std::uintptr_t high_ = 0;
  ElfW(Dyn) const* dynamic_ = nullptr;
  char const* path_ = "";
};

}  // namespace gpumem::shim
