// Finds the unwind tables of an address, for exceptions and stack walks of the static libgcc, which would
// otherwise need glibc 2.35 by name; see older_libc.cpp. Uses the loaded glibc's own function if it has
// one: that takes no lock, which walk_stack.hpp relies on. Else walks the loaded objects under the loader's
// lock, which a thread may take again, as libgcc itself did then. Any thread; no heap.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>

#include "shim/symbols/objects/elf_object.hpp"

#if __GLIBC_PREREQ(2, 35)
namespace {

using finder = int(void*, dl_find_object*);

struct search {
  std::uintptr_t address;
  dl_find_object* result;
};

int look_into(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& wanted = *static_cast<search*>(argument);
  std::uintptr_t low = UINTPTR_MAX;
  std::uintptr_t high = 0;
  bool inside = false;
  void* tables = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    auto const& part = info->dlpi_phdr[i];
    std::uintptr_t const begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) tables = reinterpret_cast<void*>(begin);
    if (part.p_type != PT_LOAD) continue;
    std::uintptr_t const end = begin + part.p_memsz;
    inside |= wanted.address >= begin && wanted.address < end;
    low = begin < low ? begin : low;
    high = end > high ? end : high;
  }
  if (!inside) return 0;
  if (tables == nullptr) return -1;
  *wanted.result = {};
  wanted.result->dlfo_map_start = reinterpret_cast<void*>(low);
  wanted.result->dlfo_map_end = reinterpret_cast<void*>(high);
  wanted.result->dlfo_eh_frame = tables;
  return 1;
}

int walk_objects(void* address, dl_find_object* result) noexcept {
  search wanted{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(&look_into, &wanted) == 1 ? 0 : -1;
}

constinit std::atomic<finder*> known = nullptr;

}  // namespace

extern "C" [[gnu::visibility("hidden")]] int _dl_find_object(void* address, dl_find_object* result) noexcept {
  finder* find = known.load(std::memory_order_relaxed);
  if (find == nullptr) {
    find =
        reinterpret_cast<finder*>(gpumem::shim::elf_object::listed("libc.so.6").function("_dl_find_object"));
    if (find == nullptr) find = &walk_objects;
    known.store(find, std::memory_order_relaxed);
  }
  return find(address, result);
}
#endif
