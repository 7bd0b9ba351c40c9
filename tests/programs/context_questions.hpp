// What programs ask where no context serves the calling thread: about memory of each kind, and what each call
// that needs a context says. Prints the codes, and what a refused call left in its outputs. Used by
// no_context and dead_context; any thread.
#pragma once

#include <cuda.h>

#include <cstdio>

#include "tests/programs/support.hpp"

namespace programs {

inline void show(const char* what, int code) {
  std::printf("%-40s %d\n", what, code);
}

struct blocks {
  CUdeviceptr plain = 0, ordered = 0, managed = 0, pinned = 0;
};

inline void ask(const char* name, CUdeviceptr address) {
  std::printf("of %s\n", name);
  unsigned value = 1;
  show("cuPointerSetAttribute", cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  for (CUpointer_attribute attribute : {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_BUFFER_ID}) {
    unsigned long long got = 0;
    void* values[] = {&got};
    show("cuPointerGetAttribute", cuPointerGetAttribute(&got, attribute, address));
    show("cuPointerGetAttributes", cuPointerGetAttributes(1, &attribute, values, address));
  }
  value = 0;
  show("cuPointerSetAttribute back",
       cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  CUdeviceptr base = 0;
  std::size_t size = 0;
  show("cuMemGetAddressRange", cuMemGetAddressRange(&base, &size, address));
  CUdeviceptr on_device = 0;
  void* const as_host = reinterpret_cast<void*>(address);
  show("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer(&on_device, as_host, 0));
  unsigned flags = 0;
  show("cuMemHostGetFlags", cuMemHostGetFlags(&flags, as_host));
  int mostly = 0;
  show("cuMemRangeGetAttribute",
       cuMemRangeGetAttribute(&mostly, sizeof mostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, 4096));
  CUipcMemHandle handle{};
  show("cuIpcGetMemHandle", cuIpcGetMemHandle(&handle, address));
}

inline void ask_all(const blocks& all) {
  ask("plain memory", all.plain);
  ask("stream-ordered memory", all.ordered);
  ask("managed memory", all.managed);
  ask("pinned memory", all.pinned);
  ask("no memory", 0x7000000);
}

inline blocks take_all() {
  blocks all;
  void* pinned = nullptr;
  REQUIRE(cuMemAlloc(&all.plain, 4096));
  REQUIRE(cuMemAllocAsync(&all.ordered, 4096, nullptr));
  REQUIRE(cuMemAllocManaged(&all.managed, 4096, CU_MEM_ATTACH_GLOBAL));
  REQUIRE(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
  REQUIRE(cuStreamSynchronize(nullptr));
  all.pinned = reinterpret_cast<CUdeviceptr>(pinned);
  return all;
}

inline void give_all(const blocks& all) {
  REQUIRE(cuMemFree(all.plain));
  REQUIRE(cuMemFreeAsync(all.ordered, nullptr));
  REQUIRE(cuMemFree(all.managed));
  REQUIRE(cuMemFreeHost(reinterpret_cast<void*>(all.pinned)));
}

}  // namespace programs
