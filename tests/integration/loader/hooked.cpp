// What only a preloaded program sees: every way to a hooked function gives the hook, and only to a hooked
// function. Exit code 0 and no output when all holds. Linked to the stand-in driver, except as
// `without_driver`, where all is weak.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/integration/loader/generated_code.hpp"

extern "C" {
#ifdef WITHOUT_DRIVER
#define WEAK __attribute__((weak))
#else
#define WEAK
#endif
int cuMemAlloc_v2(unsigned long long*, unsigned long) WEAK;
int cuMemFree_v2(unsigned long long) WEAK;
int cuMemAllocAsync(unsigned long long*, unsigned long, void*) WEAK;
}

namespace {

int failures = 0;

void expect(bool holds, char const* what) {
  if (holds) return;
  ++failures;
  std::printf("not so: %s\n", what);
}

bool is_hook(void const* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && std::strstr(info.dli_fname, "libgpumem") != nullptr;
}

#ifdef WITHOUT_DRIVER
// A program that tests a weak symbol finds it, as we export it: then the call must fail in an orderly way.
void all() {
  unsigned long long memory = 0;
  expect(&cuMemAlloc_v2 != nullptr && is_hook(reinterpret_cast<void*>(&cuMemAlloc_v2)),
         "the weak symbol is the hook");
  expect(cuMemAlloc_v2(&memory, 64) == 3, "no driver: not initialised");
  expect(memory == 0, "no driver: output untouched");
  expect(cuMemFree_v2(64) == 3, "no driver: free not initialised");
}
#else
using get_4 = int (*)(char const*, void**, int, unsigned long long);
using get_5 = int (*)(char const*, void**, int, unsigned long long, int*);

void* by_five(get_5 get, char const* name, int version, unsigned long long flags) {
  void* found = nullptr;
  get(name, &found, version, flags, nullptr);
  return found;
}

void identity() {
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  auto const four = reinterpret_cast<get_4>(dlsym(cuda, "cuGetProcAddress"));
  auto const five = reinterpret_cast<get_5>(dlsym(cuda, "cuGetProcAddress_v2"));
  expect(is_hook(reinterpret_cast<void*>(four)) && is_hook(reinterpret_cast<void*>(five)),
         "look-ups are hooked");
  void* const exported = reinterpret_cast<void*>(&cuMemAlloc_v2);
  expect(is_hook(exported), "the exported name is the hook");
  expect(dlsym(cuda, "cuMemAlloc_v2") == exported, "dlsym by handle gives the same address");
  expect(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == exported, "dlsym by default gives the same address");
  expect(dlsym(RTLD_NEXT, "cuMemAlloc_v2") == exported, "dlsym of the next one gives the same address");
  expect(by_five(five, "cuMemAlloc", 12000, 0) == exported, "cuGetProcAddress_v2 gives the same address");
  void* found = nullptr;
  four("cuMemAlloc", &found, 12000, 0);
  expect(found == exported, "cuGetProcAddress gives the same address");
  expect(!is_hook(by_five(five, "cuMemAlloc", 2000, 0)), "the old 32-bit form is not hooked");
  expect(!is_hook(dlsym(cuda, "cuMemAlloc")), "the old 32-bit symbol is not hooked");
  expect(!is_hook(dlsym(cuda, "cuNewThing_v9")), "an unknown function is not hooked");
  expect(!is_hook(by_five(five, "cuNewThing", 13000, 0)), "an unknown function is not hooked by its family");
  expect(by_five(five, "cuMemAllocAsync", 12000, 0) == dlsym(cuda, "cuMemAllocAsync"), "plain form");
  expect(by_five(five, "cuMemAllocAsync", 12000, 1) == dlsym(cuda, "cuMemAllocAsync"), "legacy form");
  expect(by_five(five, "cuMemAllocAsync", 12000, 2) == dlsym(cuda, "cuMemAllocAsync_ptsz"),
         "per-thread form");
  expect(is_hook(dlsym(cuda, "cuMemAllocAsync_ptsz")), "the per-thread form is hooked");
  expect(dlsym(cuda, "cuMemAllocAsync_ptsz") != dlsym(cuda, "cuMemAllocAsync"), "the two forms differ");
  expect(by_five(five, "cuIpcOpenMemHandle", 10000, 0) == dlsym(cuda, "cuIpcOpenMemHandle"), "IPC of 4.1");
  expect(by_five(five, "cuIpcOpenMemHandle", 12000, 0) == dlsym(cuda, "cuIpcOpenMemHandle_v2"),
         "IPC of 11.0");
  expect(by_five(five, "cuGetProcAddress", 11030, 0) == reinterpret_cast<void*>(four),
         "itself, four arguments");
  expect(by_five(five, "cuGetProcAddress", 12000, 0) == reinterpret_cast<void*>(five),
         "itself, five arguments");
}

// Code that no object holds, as a JIT compiler makes it, gets the hooks like any other.
int generated() {
  generated_lookups const jit;
  if (!jit) return skipped_test;
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  for (auto const* name :
       {"cuMemAlloc_v2", "cuMemAllocAsync_ptsz", "cuGetProcAddress", "cuGetProcAddress_v2"}) {
    void* const exported = dlsym(RTLD_DEFAULT, name);
    expect(is_hook(exported), name);
    expect(jit.dlsym(cuda, name) == exported, "dlsym by handle gives generated code the hook");
    expect(jit.dlsym(RTLD_DEFAULT, name) == exported, "dlsym by default gives generated code the hook");
    expect(jit.dlsym(RTLD_NEXT, name) == nullptr, "glibc refuses RTLD_NEXT to generated code");
  }
  expect(!is_hook(jit.dlsym(cuda, "cuMemAlloc")), "the old 32-bit symbol is not hooked");
  void* const look_up = generated_call(jit.dlsym(cuda, "cuGetProcAddress_v2"));
  void* const found = by_five(reinterpret_cast<get_5>(look_up), "cuMemAlloc", 12000, 0);
  expect(found == reinterpret_cast<void*>(&cuMemAlloc_v2), "cuGetProcAddress gives generated code the hook");
  unsigned long long memory = 0;
  auto const allocate = reinterpret_cast<int (*)(unsigned long long*, unsigned long)>(generated_call(found));
  expect(allocate(&memory, 64) == 0 && cuMemFree_v2(memory) == 0, "generated code calls the hook");
  return 0;
}

// The stand-in whose symbols have versions, as dlvsym finds only those.
void versioned() {
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  expect(is_hook(dlvsym(cuda, "cuMemAlloc_v2", "libcuda.so.1")), "dlvsym gives the hook");
  expect(dlvsym(cuda, "cuMemAlloc_v2", "other") == nullptr, "dlvsym of another version gives nothing");
  expect(!is_hook(dlvsym(cuda, "cuMemAlloc", "libcuda.so.1")), "dlvsym of an unhooked function");
}

// On a driver without cuMemAllocAsync a program may still be linked to our export.
void old_driver() {
  unsigned long long memory = 0;
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  expect(dlsym(cuda, "cuMemAllocAsync") == nullptr, "an absent function stays absent");
  auto const exported = reinterpret_cast<int (*)(unsigned long long*, unsigned long, void*)>(
      dlsym(RTLD_DEFAULT, "cuMemAllocAsync"));
  expect(exported != nullptr && exported(&memory, 64, nullptr) == 500, "calling our export of it: not found");
  expect(cuMemAlloc_v2(&memory, 64) == 0 && cuMemFree_v2(memory) == 0, "the rest works");
}

// Another preload library that wraps dlsym sees look-ups as well.
void tool() {
  auto* const calls = static_cast<int*>(dlsym(RTLD_DEFAULT, "tool_calls"));
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  int const before = *calls;
  expect(is_hook(dlsym(cuda, "cuMemAlloc_v2")), "hooked through the other tool");
  expect(*calls > before, "the other tool sees the look-up");
}

// Ways to end; the caller counts the reports.
void ends(std::string const& how) {
  unsigned long long memory = 0;
  expect(cuMemAlloc_v2(&memory, 64) == 0, "allocation");
  if (how == "_exit") _exit(0);
  if (how == "quick_exit") quick_exit(0);
  if (how == "exec") execl("/bin/true", "true", nullptr);
  if (how == "exec_fails") expect(execl("/no/such/file", "true", nullptr) == -1, "exec of nothing");
  if (how == "fork") {
    if (fork() == 0) exit(0);
    wait(nullptr);
  }
  if (how == "fork_exit") {
    if (fork() == 0) _exit(0);
    wait(nullptr);
  }
  if (how == "vfork") {
    if (vfork() == 0) _exit(0);
    wait(nullptr);
  }
  if (how == "vfork_exec") {
    if (vfork() == 0) {
      execl("/bin/true", "true", nullptr);
      _exit(1);
    }
    wait(nullptr);
  }
  expect(cuMemFree_v2(memory) == 0, "free");
}
#endif

}  // namespace

int main([[maybe_unused]] int count, [[maybe_unused]] char** arguments) {
#ifdef WITHOUT_DRIVER
  all();
#else
  std::string const which = arguments[1];
  if (which == "identity") identity();
  if (which == "versioned") versioned();
  if (which == "generated" && generated() == skipped_test) return skipped_test;
  if (which == "old_driver") old_driver();
  if (which == "tool") tool();
  if (which == "ends") ends(arguments[2]);
#endif
  return failures == 0 ? 0 : 1;
}
