// What libraries for GPUDirect RDMA ask of a block before they hand it to a network card: SYNC_MEMOPS, and a
// dma-buf for the range of 64 KiB pages around it. Prints the code of each, which must be the same preloaded;
// no network card is needed. "no dma-buf" where the kernel module cannot make one. One thread.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;
using handle_for_range = CUresult (*)(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);

void one_block(std::size_t bytes, handle_for_range ask) {
  constexpr CUdeviceptr page = 64 << 10;
  void* block = nullptr;
  REQUIRE(counted_malloc(&block, bytes));
  const auto address = reinterpret_cast<CUdeviceptr>(block);
  unsigned on = 1;
  const CUresult ordered = cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
  const CUdeviceptr begin = address / page * page;
  const CUdeviceptr end = (address + bytes + page - 1) / page * page;
  int file = -1;
  const CUresult code = ask(&file, begin, end - begin, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  std::printf("%zu KiB: SYNC_MEMOPS %d, dma-buf %d, a file %d\n", bytes >> 10, ordered, code, file >= 0);
  if (file >= 0) close(file);
  REQUIRE(counted_free(block));
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto ask = reinterpret_cast<handle_for_range>(dlsym(driver, "cuMemGetHandleForAddressRange"));
  int supported = 0;
  REQUIRE(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
  std::printf("%s\n", supported != 0 && ask != nullptr ? "dma-buf" : "no dma-buf");
  if (ask != nullptr) {
    for (const std::size_t bytes : {64 << 10, 256 << 10, 1 << 20, 3 << 20, 64 << 20}) one_block(bytes, ask);
  }
  counts.print();
}
