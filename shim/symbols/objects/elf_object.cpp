// Walks the loaded objects and their GNU or SysV hash tables; see elf_object.hpp. Runs before anything of
// this library is set up and under the loader's lock: no heap, no lock of ours, no dl* call. Nor any
// function that others interpose (strcmp, memcmp, dl_iterate_phdr, ...): a sanitizer finds the real ones
// through our dlsym, and its own crash until it has them. Hence the loops; compiled without built-ins.
#include "shim/symbols/objects/elf_object.hpp"

#include <algorithm>
#include <atomic>
#include <tuple>

#include "shim/symbols/objects/startup_data.hpp"

namespace gpumem::shim {
namespace {

struct search {
  char const* soname = nullptr;
  void const* address = nullptr;
  void const* other = nullptr;
  elf_object* found = nullptr;
  void (*visit)(elf_object const& object, void* argument) noexcept = nullptr;
  void* argument = nullptr;
};

std::uint32_t gnu_hash(char const* name) noexcept {
  std::uint32_t hash = 5381;
  for (; *name != 0; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// How much of `text` is the same in `other`; its NUL is not counted.
std::size_t common_length(char const* text, char const* other) noexcept {
  std::size_t length = 0;
  while (text[length] != 0 && text[length] == other[length]) ++length;
  return length;
}
bool equal(char const* one, char const* other) noexcept {
  std::size_t const length = common_length(one, other);
  return one[length] == other[length];
}

bool soname_matches(char const* have, char const* wanted) noexcept {
  std::size_t const length = common_length(wanted, have);
  if (wanted[length] != 0) return false;
  return have[length] == 0 || (length != 0 && wanted[length - 1] == '.');
}

// Reads whole segments, also what a sanitizer put between the constants of an object.
[[gnu::no_sanitize_address]] bool has(char const* begin, std::size_t bytes, char const* text) noexcept {
  for (char const* const end = begin + bytes; begin < end; ++begin) {
    char const* at = begin;
    char const* wanted = text;
    while (at < end && *wanted != 0 && *at == *wanted) ++at, ++wanted;
    if (*wanted == 0) return true;
  }
  return false;
}

GPUMEM_AT_START constinit char no_name[] = "";

using visitor = int (*)(dl_phdr_info*, std::size_t, void*);
GPUMEM_AT_START constinit std::atomic<int (*)(visitor, void*)> libcs_walk = nullptr;

// By libc's own dl_iterate_phdr, whoever interposes it.
void walk(visitor visit, search& wanted) noexcept {
  auto real = libcs_walk.load(std::memory_order_acquire);
  if (real == nullptr) {
    GPUMEM_AT_START static constinit char libc[] = "libc.so.6", name[] = "dl_iterate_phdr";
    void* const found = elf_object::listed(libc).function(name);
    real = reinterpret_cast<int (*)(visitor, void*)>(found);
    if (real == nullptr) return;
    libcs_walk.store(real, std::memory_order_release);
  }
  real(visit, &wanted);
}

}  // namespace

elf_object::elf_object(dl_phdr_info const& info) noexcept
    : base_(info.dlpi_addr), path_(info.dlpi_name), parts_(info.dlpi_phdr), part_count_(info.dlpi_phnum) {
  low_ = UINTPTR_MAX;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    auto const& part = info.dlpi_phdr[i];
    if (part.p_type == PT_DYNAMIC) dynamic_ = reinterpret_cast<ElfW(Dyn) const*>(base_ + part.p_vaddr);
    if (part.p_type != PT_LOAD) continue;
    low_ = std::min(low_, base_ + part.p_vaddr);
    high_ = std::max(high_, base_ + part.p_vaddr + part.p_memsz);
  }
}

elf_object elf_object::listed(char const* soname) noexcept {
  for (link_map const* at = _r_debug.r_map; at != nullptr; at = at->l_next) {
    elf_object object;
    object.base_ = at->l_addr;
    object.dynamic_ = at->l_ld;
    if (object && soname_matches(object.soname(), soname)) return object;
  }
  return {};
}

void* elf_object::first_function(char const* name) noexcept {
  for (link_map const* at = _r_debug.r_map; at != nullptr; at = at->l_next) {
    elf_object object;
    object.base_ = at->l_addr;
    object.dynamic_ = at->l_ld;
    if (void* const found = object.function(name)) return found;
  }
  return nullptr;
}

// The loader rewrites the addresses in the dynamic section, except in the vDSO and on a few architectures.
template <typename Type>
Type const* elf_object::table(ElfW(Sxword) tag) const noexcept {
  for (auto const* entry = dynamic_; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != tag) continue;
    auto const address = entry->d_un.d_ptr;
    return reinterpret_cast<Type const*>(address < base_ ? base_ + address : address);
  }
  return nullptr;
}

char const* elf_object::soname() const noexcept {
  auto const* strings = table<char>(DT_STRTAB);
  for (auto const* entry = dynamic_; strings != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SONAME) return strings + entry->d_un.d_val;
  }
  return no_name;
}

int elf_object::visit_soname(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto const& wanted = *static_cast<search*>(argument);
  elf_object const object(*info);
  if (!object || !soname_matches(object.soname(), wanted.soname)) return 0;
  *wanted.found = object;
  return 1;
}

int elf_object::visit_address(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto const& wanted = *static_cast<search*>(argument);
  elf_object const object(*info);
  if (!object || !object.contains(wanted.address)) return 0;
  *wanted.found = object;
  return 1;
}

int elf_object::visit_either(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto const& wanted = *static_cast<search*>(argument);
  elf_object const object(*info);
  if (!object.contains(wanted.address) && !object.contains(wanted.other)) return 0;
  *wanted.found = object;
  return 1;
}

int elf_object::visit_each(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto const& wanted = *static_cast<search*>(argument);
  elf_object const object(*info);
  if (object) wanted.visit(object, wanted.argument);
  return 0;
}

void elf_object::each(void (*visit)(elf_object const& object, void* argument) noexcept,
                      void* argument) noexcept {
  search wanted{.visit = visit, .argument = argument};
  walk(&visit_each, wanted);
}

// The program itself is the first object, and the only one whose DT_DEBUG is filled in.
r_debug const* elf_object::loader_state() noexcept {
  r_debug const* state = nullptr;
  each(
      [](elf_object const& object, void* result) noexcept {
        auto*& found = *static_cast<r_debug const**>(result);
        if (auto const at = object.number(DT_DEBUG); at != 0) found = reinterpret_cast<r_debug const*>(at);
      },
      &state);
  return state;
}

std::size_t elf_object::number(ElfW(Sxword) tag) const noexcept {
  for (auto const* entry = dynamic_; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == tag) return entry->d_un.d_val;
  }
  return 0;
}

void elf_object::each_import(void (*visit)(char const* name, void const* bound, void* argument) noexcept,
                             void* argument) const noexcept {
  auto const* symbols = table<ElfW(Sym)>(DT_SYMTAB);
  auto const* strings = table<char>(DT_STRTAB);
  if (symbols == nullptr || strings == nullptr) return;
  for (auto const& [start, bytes, skip] :
       {std::tuple{DT_JMPREL, DT_PLTRELSZ, 0}, std::tuple{DT_RELA, DT_RELASZ, DT_RELACOUNT}}) {
    auto const* entry = table<ElfW(Rela)>(start);
    if (entry == nullptr) continue;
    auto const* const end = entry + number(bytes) / sizeof(ElfW(Rela));
    if (skip != 0) entry += number(skip);  // the relative ones, which have no name
    for (; entry < end; ++entry) {
      auto const index = ELF64_R_SYM(entry->r_info);
      if (index == 0 || symbols[index].st_shndx != SHN_UNDEF) continue;
      void const* bound = nullptr;
      __builtin_memcpy(&bound, reinterpret_cast<void const*>(base_ + entry->r_offset), sizeof bound);
      visit(strings + symbols[index].st_name, bound, argument);
    }
  }
}

bool elf_object::holds(char const* text) const noexcept {
  for (std::size_t i = 0; i < part_count_; ++i) {
    auto const& part = parts_[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_R) == 0 || (part.p_flags & PF_W) != 0) continue;
    if (has(reinterpret_cast<char const*>(base_ + part.p_vaddr), part.p_filesz, text)) return true;
  }
  return false;
}

elf_object elf_object::with_soname(char const* soname) noexcept {
  elf_object object;
  search wanted{.soname = soname, .found = &object};
  walk(&visit_soname, wanted);
  return object;
}

elf_object elf_object::containing(void const* address) noexcept {
  elf_object object;
  search wanted{.address = address, .found = &object};
  walk(&visit_address, wanted);
  return object;
}

bool elf_object::precedes(void const* first, void const* second) noexcept {
  elf_object object;
  search wanted{.address = first, .other = second, .found = &object};
  walk(&visit_either, wanted);
  return object.contains(first) && !object.contains(second);
}

void* elf_object::defined(ElfW(Sym) const& symbol, char const* name) const noexcept {
  auto const* strings = table<char>(DT_STRTAB);
  bool const usable = symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
  if (!usable || !equal(strings + symbol.st_name, name)) return nullptr;
  return reinterpret_cast<void*>(base_ + symbol.st_value);
}

void* elf_object::function(char const* name) const noexcept {
  if (dynamic_ == nullptr) return nullptr;
  auto const* symbols = table<ElfW(Sym)>(DT_SYMTAB);
  if (symbols == nullptr) return nullptr;
  if (auto const* header = table<std::uint32_t>(DT_GNU_HASH)) {
    std::uint32_t const bucket_count = header[0];
    std::uint32_t const first_hashed = header[1];
    if (bucket_count == 0) return nullptr;
    auto const* buckets = header + 4 + header[2] * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
    auto const* chain = buckets + bucket_count;
    std::uint32_t const hash = gnu_hash(name);
    std::uint32_t index = buckets[hash % bucket_count];
    if (index < first_hashed) return nullptr;
    for (;; ++index) {
      std::uint32_t const entry = chain[index - first_hashed];
      if ((entry | 1) == (hash | 1)) {
        if (void* address = defined(symbols[index], name)) return address;
      }
      if ((entry & 1) != 0) return nullptr;
    }
  }
  if (auto const* header = table<std::uint32_t>(DT_HASH)) {
    for (std::uint32_t index = 1; index < header[1]; ++index) {
      if (void* address = defined(symbols[index], name)) return address;
    }
  }
  return nullptr;
}

}  // namespace gpumem::shim
