// See bypass.hpp. Looks at what each object's imports were bound to. That an object's dlsym is libc's own
// means little: it counts only if the object holds the name that every CUDA runtime asks for. Walks under
// the loader's iteration lock: no heap, no dl* call.
#include "shim/symbols/bypass.hpp"

#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "shim/symbols/objects/elf_object.hpp"
#include "shim/symbols/real_symbols.hpp"

namespace gpumem::shim {
namespace {

// glibc 2.35 and later chain the namespaces; its headers before that do not say so.
struct loader_namespace {
  r_debug base;
  loader_namespace const* next;
};

struct search {
  bypass_list found;
  elf_object self, driver, libc;
  void* libc_dlsym = nullptr;
  void* libc_dlvsym = nullptr;
  bool looks_up = false;      // of the object at hand: its dlsym is libc's
  bool calls_driver = false;  // a driver function that is hooked is bound to the driver itself
};

char const* file_of(char const* path) noexcept {
  char const* const slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

void add(bypass_list& list, char const* path, char const* how) noexcept {
  std::size_t const used = std::strlen(list.text);
  std::snprintf(list.text + used, sizeof list.text - used, "%s%s (%s)", used != 0 ? ", " : "", file_of(path),
                how);
}

void look_at_import(char const* name, void const* bound, void* argument) noexcept {
  auto& s = *static_cast<search*>(argument);
  if (name[0] == 'd') {
    bool const plain = std::strcmp(name, "dlsym") == 0 && bound == s.libc_dlsym;
    bool const versioned = std::strcmp(name, "dlvsym") == 0 && bound == s.libc_dlvsym;
    s.looks_up |= bound != nullptr && (plain || versioned);
  } else if (name[0] == 'c' && name[1] == 'u') {
    s.calls_driver |= s.driver.contains(bound) && s.self.function(name) != nullptr;
  }
}

void look_at_object(elf_object const& object, void* argument) noexcept {
  auto& s = *static_cast<search*>(argument);
  for (auto const* other : {&s.self, &s.driver, &s.libc}) {
    if (*other && other->low() == object.low()) return;
  }
  s.looks_up = s.calls_driver = false;
  object.each_import(&look_at_import, &s);
  if (s.calls_driver || (s.looks_up && object.holds("cuGetProcAddress"))) {
    add(s.found, object.path(), "RTLD_DEEPBIND");
  }
}

void look_at_namespaces(r_debug const& debug, bypass_list& list) noexcept {
  if (debug.r_version < 2) return;
  auto const* first = reinterpret_cast<loader_namespace const*>(&debug);
  for (auto const* other = first->next; other != nullptr; other = other->next) {
    for (auto const* object = other->base.r_map; object != nullptr; object = object->l_next) {
      if (std::strncmp(file_of(object->l_name), "libcuda.so", 10) == 0) {
        add(list, object->l_name, "dlmopen");
      }
    }
  }
}

}  // namespace

bypass_list find_bypasses() noexcept {
  search s;
  s.driver = real_symbols::driver_object();
  r_debug const* const debug = elf_object::loader_state();
  bool const alone = debug == nullptr || debug->r_version < 2;
  if (!s.driver && alone) return s.found;  // no CUDA here
  s.self = elf_object::containing(reinterpret_cast<void*>(&find_bypasses));
  s.libc = elf_object::with_soname("libc.so.6");
  s.libc_dlsym = s.libc.function("dlsym");
  s.libc_dlvsym = s.libc.function("dlvsym");
  if (s.driver) elf_object::each(&look_at_object, &s);
  if (!alone) {
    auto const visit = [](dl_phdr_info*, std::size_t, void* argument) noexcept {
      look_at_namespaces(*elf_object::loader_state(), static_cast<search*>(argument)->found);
      return 1;
    };
    dl_iterate_phdr(visit, &s);  // for its lock: no namespace changes meanwhile
  }
  return s.found;
}

}  // namespace gpumem::shim
