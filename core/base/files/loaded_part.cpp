// See loaded_part.hpp.
#include "core/base/files/loaded_part.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <array>
#include <cstring>
#include <span>

#include "core/base/own_memory.hpp"
#include "core/base/threads/walk_stack.hpp"

namespace gpumem::base {

#if __GLIBC_PREREQ(2, 35)
bool find_loaded_part(std::uint64_t code, loaded_part& found) noexcept {
  constexpr std::uint64_t page = 4096;
  dl_find_object object{};
  if (!walks_take_no_lock.load(std::memory_order_relaxed) ||
      ::_dl_find_object(reinterpret_cast<void*>(code), &object) != 0 || object.dlfo_link_map == nullptr)
    return false;
  // Where a file begins with its first part, which is the rule, its head is in memory. Files that protect
  // themselves may have made it unreadable.
  struct {
    ElfW(Ehdr) head;
    std::array<ElfW(Phdr), 24> parts;
  } file;
  if (read_own_memory(object.dlfo_map_start, &file, sizeof file) != sizeof file) return false;
  ElfW(Ehdr) const& head = file.head;
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr)) ||
      head.e_phoff != sizeof head || head.e_phnum > file.parts.size())
    return false;
  for (ElfW(Phdr) const& part : std::span(file.parts).first(head.e_phnum)) {
    std::uint64_t const begin = object.dlfo_link_map->l_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || code - begin >= part.p_filesz) continue;
    found = {.begin = begin / page * page,
             .end = (begin + part.p_filesz + page - 1) / page * page,
             .file_offset = part.p_offset / page * page,
             .path = object.dlfo_link_map->l_name != nullptr ? object.dlfo_link_map->l_name : ""};
    return true;
  }
  return false;
}
#else
bool find_loaded_part(std::uint64_t, loaded_part&) noexcept {
  return false;
}
#endif

}  // namespace gpumem::base
