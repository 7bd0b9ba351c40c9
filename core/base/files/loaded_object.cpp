// See loaded_object.hpp.
#include "core/base/files/loaded_object.hpp"

#include <link.h>

namespace gpumem::base {
namespace {

struct search {
  std::uintptr_t address;
  loaded_object& found;
  take_object take;
  void* taker;
};

int visit(dl_phdr_info* info, std::size_t, void* asked) noexcept {
  auto& self = *static_cast<search*>(asked);
  std::uintptr_t low = ~std::uintptr_t{0};
  std::uintptr_t high = 0;
  bool inside = false;
  for (ElfW(Half) i = 0; i < info->dlpi_phnum; ++i) {
    auto const& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    std::uintptr_t const begin = info->dlpi_addr + part.p_vaddr;
    std::uintptr_t const end = begin + part.p_memsz;
    low = begin < low ? begin : low;
    high = end > high ? end : high;
    inside = inside || (begin <= self.address && self.address < end);
  }
  if (!inside) return 0;
  self.found = {low, high};
  self.take(info->dlpi_name != nullptr ? info->dlpi_name : "", self.taker);
  return 1;
}

}  // namespace

bool find_loaded_object(std::uintptr_t address, loaded_object& found, take_object take,
                        void* taker) noexcept {
  search asked{address, found, take, taker};
  return ::dl_iterate_phdr(visit, &asked) != 0;
}

}  // namespace gpumem::base
