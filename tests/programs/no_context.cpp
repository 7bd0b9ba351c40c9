// Calls by a thread that has no current context, as framework worker threads make them: allocations, frees,
// virtual memory, queries. Prints the codes. Run plain and preloaded by the integration and GPU tests, on old
// drivers too. Two threads.
#include <cuda.h>

#include <thread>

#include "tests/programs/context_questions.hpp"

namespace {

using namespace programs;

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
