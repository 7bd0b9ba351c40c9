// Calls by a thread that has no current context, as framework worker threads make them: allocations, frees,
// virtual memory, queries. Prints the codes. Run plain and preloaded by the integration and GPU tests, on old
// drivers too. Two threads.
#include <cuda.h>

#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void show(const char* what, int code) {
  std::printf("%-40s %d\n", what, code);
}

void without(CUdeviceptr made_before) {
  CUdeviceptr block = 0x5555;
  std::size_t free = 0;
  std::size_t total = 0;
  CUcontext current = nullptr;
  show("cuCtxGetCurrent", cuCtxGetCurrent(&current));
  std::printf("  a context: %d\n", current != nullptr);
  show("cuMemAlloc", cuMemAlloc(&block, 4096));
  show("cuMemAlloc(0)", cuMemAlloc(&block, 0));
  show("cuMemAlloc(null)", cuMemAlloc(nullptr, 4096));
  show("cuMemAllocManaged", cuMemAllocManaged(&block, 4096, CU_MEM_ATTACH_GLOBAL));
  show("cuMemFree(made up)", cuMemFree(0x7000000));
  show("cuMemFree(0)", cuMemFree(0));
  show("cuMemGetInfo", cuMemGetInfo(&free, &total));
  show("cuCtxSynchronize", cuCtxSynchronize());
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  show("cuMemCreate", cuMemCreate(&handle, 2 << 20, &wanted, 0));
  if (handle != 0) show("cuMemRelease", cuMemRelease(handle));
  show("cuMemFree of another thread's block", cuMemFree(made_before));
}

struct blocks {
  CUdeviceptr plain = 0, ordered = 0, managed = 0, pinned = 0;
};

void ask(const char* name, CUdeviceptr address) {
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

void ask_all(const blocks& all) {
  ask("plain memory", all.plain);
  ask("stream-ordered memory", all.ordered);
  ask("managed memory", all.managed);
  ask("pinned memory", all.pinned);
  ask("no memory", 0x7000000);
}

blocks take_all() {
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

void give_all(const blocks& all) {
  REQUIRE(cuMemFree(all.plain));
  REQUIRE(cuMemFreeAsync(all.ordered, nullptr));
  REQUIRE(cuMemFree(all.managed));
  REQUIRE(cuMemFreeHost(reinterpret_cast<void*>(all.pinned)));
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  show("cuMemAlloc before cuInit", cuMemAlloc(&block, 4096));
  show("cuMemFree before cuInit", cuMemFree(0x7000000));
  REQUIRE(cuInit(0));
  show("cuMemAlloc without any context", cuMemAlloc(&block, 4096));
  show("cuMemFree without any context", cuMemFree(0x7000000));
  REQUIRE(cuDeviceGet(&device, 0));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
  REQUIRE(cuCtxSetCurrent(context));
  REQUIRE(cuMemAlloc(&block, 4096));
  std::thread(without, block).join();
  show("cuMemFree again, here", cuMemFree(block));
  const blocks all = take_all();
  std::thread(ask_all, all).join();
  give_all(all);
}
