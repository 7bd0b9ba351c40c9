// What a program is told in other contexts of its process after a kernel of one faulted: another context of
// the same device, one of a second device if there is one, one that is made later, and the primary one after
// a reset. "told": the faulted context's stream said so first; "untold": nobody asked it, the others are
// asked once the kernel must have run. Shared by tests/programs/faulted.cpp, on the simulated CUDA, and
// tests/gpu/faulted_kernel.cu, which bring the fault. One thread.
#pragma once

#include <chrono>
#include <thread>

#include "tests/programs/driver_support.hpp"

namespace programs {

struct other_context {
  const char* name;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr kept[2] = {}, ordered = 0;
  void* pinned = nullptr;
};

inline void say(const char* what, CUresult code) {
  std::printf("  %s: %d\n", what, static_cast<int>(code));
}

// Blocks that live, and others that may serve again at once.
inline void prepare(other_context& of) {
  REQUIRE(cuStreamCreate(&of.stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuMemAllocAsync(&of.ordered, 4096, of.stream));
  REQUIRE(cuMemHostAlloc(&of.pinned, 4096, 0));
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{3} << 20}) {
    CUdeviceptr& live = of.kept[bytes > 512];
    REQUIRE(cuMemAlloc(&live, bytes));
    for (int round = 0; round < 3; ++round) {
      CUdeviceptr spare = 0;
      REQUIRE(cuMemAlloc(&spare, bytes));
      REQUIRE(cuMemFree(spare));
    }
  }
  REQUIRE(cuCtxSynchronize());
}

inline void requests(CUstream stream) {
  CUdeviceptr block = 0;
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{3} << 20, std::size_t{100} << 20}) {
    say("cuMemAlloc", cuMemAlloc(&block, bytes));
    if (block != 0) say("cuMemFree", cuMemFree(std::exchange(block, 0)));
  }
  say("cuMemAllocAsync", cuMemAllocAsync(&block, 512, stream));
  if (block != 0) say("cuMemFreeAsync", cuMemFreeAsync(std::exchange(block, 0), stream));
  say("cuMemAllocManaged", cuMemAllocManaged(&block, 4096, CU_MEM_ATTACH_GLOBAL));
  if (block != 0) say("cuMemFree", cuMemFree(std::exchange(block, 0)));
}

inline void everything(other_context& of) {
  std::printf("%s\n", of.name);
  if (const CUresult code = cuCtxSetCurrent(of.context); code != CUDA_SUCCESS)
    return say("cuCtxSetCurrent", code);
  requests(of.stream);
  say("cuMemFree of a live one", cuMemFree(of.kept[0]));
  say("cuMemFree again", cuMemFree(of.kept[0]));
  say("cuMemFree of a large one", cuMemFree(of.kept[1]));
  say("cuMemFreeAsync", cuMemFreeAsync(of.ordered, of.stream));
  say("cuMemFreeHost", cuMemFreeHost(of.pinned));
  say("cuStreamSynchronize", cuStreamSynchronize(of.stream));
  say("cuCtxSynchronize", cuCtxSynchronize());
  requests(of.stream);
}

// `fault` puts a kernel that faults on the stream, and returns once it must have run.
inline void faulted_elsewhere(bool told, bool resets, void (*fault)(cudaStream_t)) {
  int devices = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGetCount(&devices));
  other_context beside{"another context of the device"}, second{"a context of a second device"},
      later{"a context that is made then"}, primary{"the context of the kernel"};
  if (devices > 1) {
    REQUIRE(cuDevicePrimaryCtxRetain(&second.context, 1));
    REQUIRE(cuCtxSetCurrent(second.context));
    prepare(second);
  }
  REQUIRE(cuCtxCreate_v2(&beside.context, 0, 0));
  prepare(beside);
  REQUIRE(cuDevicePrimaryCtxRetain(&primary.context, 0));
  REQUIRE(cuCtxSetCurrent(primary.context));
  prepare(primary);
  fault(primary.stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (told) say("cuStreamSynchronize of the kernel's", cuStreamSynchronize(primary.stream));
  everything(beside);
  if (devices > 1) everything(second);
  REQUIRE(cuCtxSetCurrent(primary.context));
  everything(primary);
  const CUresult made = cuCtxCreate_v2(&later.context, 0, 0);
  std::printf("%s: %d\n", later.name, static_cast<int>(made));
  if (made == CUDA_SUCCESS) {
    requests(CU_STREAM_PER_THREAD);
    say("cuCtxDestroy", cuCtxDestroy(later.context));
  }
  say("cuCtxDestroy of the other one", cuCtxDestroy(beside.context));
  if (!resets) return;
  say("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset(0));
  CUcontext again = nullptr;
  say("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&again, 0));
  say("cuCtxSetCurrent", cuCtxSetCurrent(again));
  requests(CU_STREAM_PER_THREAD);
  if (devices > 1) {
    say("cuCtxSetCurrent of the second device's", cuCtxSetCurrent(second.context));
    requests(CU_STREAM_PER_THREAD);
  }
}

}  // namespace programs
