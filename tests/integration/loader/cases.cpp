// What a program sees of the loader and of cuGetProcAddress, printed. loader.py runs each case without and
// with the preload library: the output must be the same. The names of real functions come from the stand-in's
// trace.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "tests/integration/loader/generated_code.hpp"

extern "C" {
void* first_asks_next(char const* name);
char const* ompt_start_tool();
char const* cuMemLookalike();
extern int early_found;
int cuMemAlloc_v2(unsigned long long*, unsigned long) __attribute__((weak));
}

namespace {

using text_function = char const* (*)();

void say(char const* what, void* function) {
  std::printf("%s: %s\n", what, function == nullptr ? "null" : reinterpret_cast<text_function>(function)());
}

void error(char const* what) {
  char const* text = dlerror();
  std::printf("%s: %s\n", what, text == nullptr ? "no error" : text);
}

int next() {
  for (int i = 0; i < 100; ++i) {
    for (auto const* name : {"ompt_start_tool", "cuMemLookalike"}) {
      void* mine = nullptr;
      void* other = nullptr;
      std::thread asking([&] { other = first_asks_next(name); });
      mine = first_asks_next(name);
      asking.join();
      if (i % 99 == 0 || mine != other) say(name, mine), say(name, other);
    }
  }
  say("default", dlsym(RTLD_DEFAULT, "cuMemLookalike"));
  say("next of the program", dlsym(RTLD_NEXT, "cuMemLookalike"));
  return 0;
}

int plugin() {
  void* handle = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL);
  auto const ask = reinterpret_cast<void* (*)(char const*)>(dlsym(handle, "plugin_asks_next"));
  auto const ask_default = reinterpret_cast<void* (*)(char const*)>(dlsym(handle, "plugin_asks_default"));
  for (auto const* name : {"plugin_thing", "cuPluginThing"}) {
    say(name, ask(name));
    say(name, ask_default(name));
    say(name, dlsym(handle, name));
    say(name, dlsym(RTLD_DEFAULT, name));
  }
  return 0;
}

int errors() {
  void* math = dlopen("libm.so.6", RTLD_NOW);
  dlsym(math, "cuNoSuchThing"), error("unknown cu name");
  dlsym(math, "no_such_thing"), error("unknown name");
  dlsym(math, "cuMemAlloc_v2"), error("hooked name, wrong object");
  dlvsym(math, "cuMemAlloc_v2", "V1"), error("hooked name and version, wrong object");
  dlvsym(math, "sin", "NO_SUCH_VERSION"), error("wrong version");
  std::printf("sin %d\n", dlsym(math, "sin") != nullptr), error("after success");
  dlsym(math, "cuNoSuchThing");
  std::thread([] { error("another thread"); }).join();
  error("this thread");
  dlsym(RTLD_DEFAULT, "cuNoSuchThing"), error("default");
  std::printf("empty name %d\n", dlsym(math, "") != nullptr), error("empty name");
  return 0;
}

// Without a driver a program that probes for one must not find it.
int probe() {
  for (auto const* name : {"cuInit", "cuMemAlloc_v2", "cuMemFree_v2", "cuGetProcAddress",
                           "cuGetProcAddress_v2", "cudaMalloc", "cudaFree", "cudaGetDeviceCount"}) {
    std::printf("%s default %d next %d\n", name, dlsym(RTLD_DEFAULT, name) != nullptr,
                dlsym(RTLD_NEXT, name) != nullptr);
  }
  return 0;
}

int early() {
  std::printf("early %d\n", early_found);
  return 0;
}

using get_4 = int (*)(char const*, void**, int, unsigned long long);
using get_5 = int (*)(char const*, void**, int, unsigned long long, int*);

struct driver {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW);
  text_function trace = reinterpret_cast<text_function>(dlsym(handle, "stand_in_trace"));
  void (*clear)() = reinterpret_cast<void (*)()>(dlsym(handle, "stand_in_clear"));
  get_4 four = reinterpret_cast<get_4>(dlsym(handle, "cuGetProcAddress"));
  get_5 five = reinterpret_cast<get_5>(dlsym(handle, "cuGetProcAddress_v2"));

  // Calls the function with arguments that suit every form, and prints which real one it led to.
  void call(char const* name, int version, int flags, void* function) {
    clear();
    unsigned long long result[16] = {};
    if (function != nullptr && std::strncmp(name, "cuGetProcAddress", 16) != 0) {
      reinterpret_cast<int (*)(void*, unsigned long, void*)>(function)(result, 8, nullptr);
    }
    std::printf("%s %d flags %d: %s %s\n", name, version, flags, function == nullptr ? "null" : "found",
                trace());
  }
};

int get_proc_address() {
  driver cuda;
  for (auto const* name : {"cuMemAlloc", "cuMemAllocAsync", "cuNewThing", "cuMem", "cuMemAllocA",
                           "cuMemAlloc_v2", "cuUnknown", ""}) {
    for (int version : {2000, 3020, 11020, 11030, 12000, 13000}) {
      for (int flags : {0, 1, 2}) {
        void* function = nullptr;
        int const code = cuda.four(name, &function, version, static_cast<unsigned long long>(flags));
        std::printf("four %d ", code), cuda.call(name, version, flags, function);
        if (cuda.five == nullptr) continue;
        int status = -1;
        function = nullptr;
        int const code_5 =
            cuda.five(name, &function, version, static_cast<unsigned long long>(flags), &status);
        std::printf("five %d status %d ", code_5, status), cuda.call(name, version, flags, function);
        cuda.five(name, &function, version, static_cast<unsigned long long>(flags), nullptr);
      }
    }
  }
  void* function = nullptr;
  std::printf("null name %d, null result %d\n", cuda.four(nullptr, &function, 12000, 0),
              cuda.four("cuMemAlloc", nullptr, 12000, 0));
  // The four-argument form through the five-argument one, and the other way round.
  for (int version : {11030, 12000}) {
    if (cuda.four("cuGetProcAddress", &function, version, 0) != 0 || function == nullptr) continue;
    void* found = nullptr;
    bool const takes_five = version >= 12000 && cuda.five != nullptr;
    int const code = takes_five ? reinterpret_cast<get_5>(function)("cuMemFree", &found, 12000, 0, nullptr)
                                : reinterpret_cast<get_4>(function)("cuMemFree", &found, 12000, 0);
    std::printf("through %d: %d %d\n", version, code, found != nullptr);
  }
  return 0;
}

int two_stages() {
  driver cuda;
  unsigned long long result = 0;
  void* function = dlsym(cuda.handle, "cuMemAlloc_v2");
  int const code = reinterpret_cast<int (*)(unsigned long long*, unsigned long)>(function)(&result, 64);
  std::printf("code %d memory %d trace %s\n", code, result != 0, cuda.trace());
  return 0;
}

// Look-ups by code that no object holds: glibc serves them as the program's own, and refuses RTLD_NEXT.
int generated() {
  generated_lookups const jit;
  if (!jit) return skipped_test;
  auto const ask = [&jit](char const* scope, void* handle, char const* name) {
    dlerror();
    std::printf("%s %s found %d, ", scope, name, jit.dlsym(handle, name) != nullptr), error("dlsym");
    std::printf("%s %s found %d, ", scope, name, jit.dlvsym(handle, name, "V1") != nullptr), error("dlvsym");
  };
  void* const math = dlopen("libm.so.6", RTLD_NOW);
  auto const all = [&] {
    for (auto const* name : {"sin", "cuMemLookalike", "cuNoSuchThing", "dlsym", "dlvsym", "dlopen"}) {
      for (auto const& [scope, handle] :
           {std::pair{"default", RTLD_DEFAULT}, {"next", RTLD_NEXT}, {"math", math}})
        ask(scope, handle, name);
    }
  };
  all();
  std::thread(all).join();
  say("first of all", jit.dlsym(RTLD_DEFAULT, "cuMemLookalike"));
  // In the global scope, so that the driver is there for RTLD_DEFAULT without the library as well.
  driver cuda{dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)};
  for (auto const* name :
       {"cuMemAlloc_v2", "cuMemAlloc", "cuMemAllocAsync_ptsz", "cuNewThing_v9", "cuNone"}) {
    cuda.call(name, 0, 0, jit.dlsym(cuda.handle, name)), error("by handle");
    cuda.call(name, 0, 0, jit.dlsym(RTLD_DEFAULT, name)), error("default");
    cuda.call(name, 0, 0, jit.dlsym(RTLD_NEXT, name)), error("next");
  }
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  std::string const which = arguments[1];
  std::printf("linked: %s %s\n", ompt_start_tool(), cuMemLookalike());
  if (which == "next") return next();
  if (which == "plugin") return plugin();
  if (which == "errors") return errors();
  if (which == "probe") return probe();
  if (which == "early") return early();
  if (which == "get_proc_address") return get_proc_address();
  if (which == "two_stages") return two_stages();
  if (which == "generated") return generated();
  return 2;
}
