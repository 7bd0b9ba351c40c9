// The start of the program `gpumem` on glibc 2.28 to 2.33, whatever glibc it was built on; see
// older_libc.cpp. The C runtime's start file calls glibc 2.34's __libc_start_main, which runs the
// constructors itself; the older one, which every glibc still has, runs those it is given. Runs once,
// before main, on the only thread.
#include <dlfcn.h>

#include "shim/symbols/objects/elf_object.hpp"

#if __GLIBC_PREREQ(2, 34)
extern "C" {

#if defined(__x86_64__)
__asm__(".symver gpumem_libcs_start, __libc_start_main@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver gpumem_libcs_start, __libc_start_main@GLIBC_2.17");
#endif

using start_step = void(int, char**, char**);
int gpumem_libcs_start(int (*main)(int, char**, char**), int, char**, start_step* begin, void (*end)(),
                       void (*loaders_end)(), void* stack);
void _init();
[[gnu::visibility("hidden")]] extern start_step* const __init_array_start[];
[[gnu::visibility("hidden")]] extern start_step* const __init_array_end[];

// What the start file of an older glibc brought along.
static void run_constructors(int count, char** arguments, char** environment) {
  _init();
  for (auto const* step = __init_array_start; step != __init_array_end; ++step)
    (*step)(count, arguments, environment);
}

// The destructors are the loader's work in a program with shared libraries: `end` is null.
[[gnu::visibility("hidden")]] int __libc_start_main(int (*main)(int, char**, char**), int count,
                                                    char** arguments, start_step*, void (*end)(),
                                                    void (*loaders_end)(), void* stack) {
  return gpumem_libcs_start(main, count, arguments, &run_constructors, end, loaders_end, stack);
}
}
#endif

// Its own, as the library's is a hook.
extern "C" [[gnu::visibility("hidden")]] void* dlsym(void* handle, char const* name) noexcept {
  auto* const found = gpumem::shim::elf_object::first_function("dlsym");
  return found == nullptr ? nullptr : reinterpret_cast<void* (*)(void*, char const*)>(found)(handle, name);
}
