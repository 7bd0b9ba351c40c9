// Small libraries around the test program, one source built several times with ROLE set: `first` looks up the
// next definition of names that `second` defines; `plugin` does so from a local scope; `early` does so in a
// constructor that runs before the preload library's; `tool` is another preload library that wraps dlsym.
#include <dlfcn.h>

#include <cstdio>

#define FIRST 1
#define SECOND 2
#define PLUGIN 3
#define PLUGIN_PART 4
#define EARLY 5
#define TOOL 6

extern "C" {

#if ROLE == FIRST
char const* ompt_start_tool() {
  return "first";
}
char const* cuMemLookalike() {
  return "first";
}
void* first_asks_next(char const* name) {
  return dlsym(RTLD_NEXT, name);
}
#endif

#if ROLE == SECOND
char const* ompt_start_tool() {
  return "second";
}
char const* cuMemLookalike() {
  return "second";
}
#endif

#if ROLE == PLUGIN
char const* plugin_thing() {
  return "plugin";
}
char const* cuPluginThing() {
  return "plugin";
}
void* plugin_asks_next(char const* name) {
  return dlsym(RTLD_NEXT, name);
}
void* plugin_asks_default(char const* name) {
  return dlsym(RTLD_DEFAULT, name);
}
#endif

#if ROLE == PLUGIN_PART
char const* plugin_thing() {
  return "its part";
}
char const* cuPluginThing() {
  return "its part";
}
#endif

#if ROLE == EARLY
int early_found = -1;
__attribute__((constructor)) static void look_early() {
  early_found = (dlsym(RTLD_NEXT, "getpid") != nullptr) + 2 * (dlsym(RTLD_DEFAULT, "cuNothing") == nullptr) +
                4 * (dlvsym(RTLD_NEXT, "cuNothing", "GLIBC_2.2.5") == nullptr);
}
#endif

#if ROLE == TOOL
int tool_calls = 0;
// A C wrapper, as many tools have it. It finds libc's by version, so it meets our dlvsym first.
void* dlsym(void* handle, char const* name) {
#ifdef __x86_64__
  static auto const real =
      reinterpret_cast<void* (*)(void*, char const*)>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
#else
  static auto const real =
      reinterpret_cast<void* (*)(void*, char const*)>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17"));
#endif
  ++tool_calls;
  return real(handle, name);
}
#endif
}
