// A library that wraps functions of the CUDA runtime as tools do: it finds the next one by RTLD_NEXT, puts
// 256 bytes before and behind each block of cudaMalloc, and prints at the end how many calls it saw. A block
// of which it sees the request and not the free, or the other way round, is freed by a wrong address. Built
// with PROFILER it wraps a function of libcupti instead. Preloaded, or linked into a program in front of the
// runtime. One thread at a time.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>

namespace {

constexpr std::size_t zone = 256;
int allocations = 0, frees = 0, asked = 0;

template <typename Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

__attribute__((destructor)) void say() {
  std::printf("wrapper: %d cudaMalloc, %d cudaFree, %d cuptiActivityEnable\n", allocations, frees, asked);
  std::fflush(stdout);
}

}  // namespace

extern "C" {

#ifndef PROFILER
int cudaMalloc(void** block, std::size_t bytes) {
  static auto* const real = next(&cudaMalloc, "cudaMalloc");
  ++allocations;
  const int code = real(block, bytes + 2 * zone);
  if (code == 0) *block = static_cast<char*>(*block) + zone;
  return code;
}

int cudaFree(void* block) {
  static auto* const real = next(&cudaFree, "cudaFree");
  ++frees;
  return real(block != nullptr ? static_cast<char*>(block) - zone : nullptr);
}
#else
int cuptiActivityEnable(int kind) {
  static auto* const real = next(&cuptiActivityEnable, "cuptiActivityEnable");
  ++asked;
  return real(kind);
}
#endif
}
