// A function whose instructions are written at run time, as a JIT compiler does: no object holds the address
// that it calls dlsym or dlvsym from. Used by cases.cpp and hooked.cpp, on any thread. x86-64 only: elsewhere
// nothing is made and the test is skipped.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

// The exit code that loader.py takes for "skipped".
constexpr int skipped_test = 77;

// Code that calls `target` with the arguments it gets and returns what that returns; null where it cannot be
// made. A call and not a jump: the return address is what dlsym reads the caller from.
inline void* generated_call(void* target) {
#ifdef __x86_64__
  unsigned char code[] = {
      0xf3, 0x0f, 0x1e, 0xfa,                    // endbr64
      0x48, 0x83, 0xec, 0x08,                    // sub $8, %rsp
      0x48, 0xb8, 0,    0,    0, 0, 0, 0, 0, 0,  // mov $target, %rax
      0xff, 0xd0,                                // call *%rax
      0x48, 0x83, 0xc4, 0x08,                    // add $8, %rsp
      0xc3,                                      // ret
  };
  std::memcpy(code + 10, &target, sizeof target);
  void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memcpy(memory, code, sizeof code);
  return mprotect(memory, 4096, PROT_READ | PROT_EXEC) == 0 ? memory : nullptr;
#else
  static_cast<void>(target);
  return nullptr;
#endif
}

struct generated_lookups {
  using plain = void* (*)(void*, char const*);
  using versioned = void* (*)(void*, char const*, char const*);
  plain const dlsym = reinterpret_cast<plain>(generated_call(reinterpret_cast<void*>(&::dlsym)));
  versioned const dlvsym = reinterpret_cast<versioned>(generated_call(reinterpret_cast<void*>(&::dlvsym)));

  explicit operator bool() const { return dlsym != nullptr && dlvsym != nullptr; }
};
