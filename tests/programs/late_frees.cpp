// Memory that is given back while work still uses it, where nobody but the order of the work keeps it from
// others, or beside work that its free does not wait for natively. Modes: `host`: page-locked memory, beside
// the work of another context (tests/gpu/freed_beside_another_device.cu); `async`:
// cuMemFreeAsync of a block whose stream is at work, which waits for nobody; `foreign`: the same of plain and
// pooled memory on a stream of another device or context (tests/gpu/freed_on_foreign_streams.cu); `threads`:
// thousands of threads, each with work on its own default stream when it ends, and streams made later. On the
// simulated CUDA; two devices for `host` and `foreign`.
#include <cuda.h>

#include <cstring>
#include <set>
#include <thread>

#include "tests/programs/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;

constexpr unsigned long long long_work = 1'000'000'000;

void use(CUstream stream, CUdeviceptr block, std::size_t bytes, unsigned long long ns) {
  const simulated_access access{block, bytes, 1};
  REQUIRE(simulated_control::launch(stream, &access, 1, ns));
}

const char* state_of(CUstream stream) {
  return cuStreamQuery(stream) == CUDA_SUCCESS ? "done" : "running";
}

CUcontext retain(CUdevice device) {
  CUcontext context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
  REQUIRE(cuCtxSetCurrent(context));
  return context;
}

void host(bool made) {
  CUcontext other = retain(1);
  if (made) REQUIRE(cuCtxCreate(&other, nullptr, 0, 1));
  CUstream stream = nullptr;
  CUdeviceptr there = 0;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuMemAlloc(&there, 1 << 20));
  CUcontext own = retain(0);
  for (int round = 0; round < 5; ++round) {
    void* block = nullptr;
    REQUIRE(cuCtxSetCurrent(own));
    REQUIRE(cuMemHostAlloc(&block, 1 << 20, CU_MEMHOSTALLOC_PORTABLE));
    REQUIRE(cuCtxSetCurrent(other));
    use(stream, there, 1 << 20, long_work);
    REQUIRE(cuCtxSetCurrent(own));
    REQUIRE(cuMemFreeHost(block));
    std::printf("after its free the work of another context is %s\n", state_of(stream));
  }
}

void async() {
  retain(0);
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < 20; ++round) {
    CUdeviceptr block = 0;
    ++counts.async_allocations;
    counts.bytes += 1 << 20;
    REQUIRE(cuMemAllocAsync(&block, 1 << 20, stream));
    use(stream, block, 1 << 20, long_work);
    ++counts.async_frees;
    REQUIRE(cuMemFreeAsync(block, stream));
    std::printf("after cuMemFreeAsync the work is %s\n", state_of(stream));
    if (round % 5 == 4) REQUIRE(cuStreamSynchronize(stream));
  }
  counts.print();
}

// The device of the context that is current reads and writes what is device 0's.
void give_access(CUcontext own) {
  REQUIRE(cuCtxEnablePeerAccess(own, 0));
  CUmemoryPool pool = nullptr;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 1;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REQUIRE(cuDeviceGetDefaultMemPool(&pool, 0));
  REQUIRE(cuMemPoolSetAccess(pool, &access, 1));
}

// What is asked for next in the memory's own context may not be what the other one's work still uses. With
// stream 0 the context that is current says whose it is.
void foreign(bool made) {
  CUcontext other = retain(1);
  const CUcontext own = retain(0);
  if (made) REQUIRE(cuCtxCreate(&other, nullptr, 0, 0));
  CUstream theirs = nullptr, ours = nullptr;
  REQUIRE(cuCtxSetCurrent(other));
  REQUIRE(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
  if (!made) give_access(own);
  REQUIRE(cuCtxSetCurrent(own));
  REQUIRE(cuStreamCreate(&ours, CU_STREAM_NON_BLOCKING));
  constexpr std::size_t bytes = 1 << 20;
  for (int round = 0; round < 40; ++round) {
    const bool pooled = round % 2 == 1;
    const CUstream on = round % 8 < 4 ? theirs : nullptr;
    CUdeviceptr block = 0, next = 0;
    REQUIRE(cuCtxSetCurrent(own));
    REQUIRE(pooled ? cuMemAllocAsync(&block, bytes, ours) : cuMemAlloc(&block, bytes));
    REQUIRE(cuStreamSynchronize(ours));
    REQUIRE(cuCtxSetCurrent(other));
    use(on, block, bytes, long_work);
    if (on != nullptr && round % 4 >= 2) REQUIRE(cuCtxSetCurrent(own));
    REQUIRE(cuMemFreeAsync(block, on));
    REQUIRE(cuCtxSetCurrent(other));
    std::printf("after cuMemFreeAsync on it the other one's work is %s\n", state_of(on));
    REQUIRE(cuCtxSetCurrent(own));
    REQUIRE(pooled ? cuMemAllocAsync(&next, bytes, ours) : cuMemAlloc(&next, bytes));
    use(ours, next, bytes, 1000);
    REQUIRE(cuMemFreeAsync(next, ours));
    // Its own context's work is waited for, and nobody else's.
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuCtxSetCurrent(other));
    std::printf("after a synchronisation it is %s\n", state_of(on));
    if (round % 10 == 9) REQUIRE(cuCtxSynchronize());
  }
}

void look(CUstream stream) {
  std::set<CUdeviceptr> addresses;
  for (int i = 0; i < 100; ++i) {
    CUdeviceptr block = 0;
    REQUIRE(cuMemAllocAsync(&block, 8 << 20, stream));
    use(stream, block, 8 << 20,
        100'000'000);  // under way at the next request: only the stream's order serves it
    REQUIRE(cuMemFreeAsync(block, stream));
    addresses.insert(block);
  }
  std::printf("100 blocks, one after the other on one stream, took %zu addresses\n", addresses.size());
  REQUIRE(cuStreamSynchronize(stream));
}

void threads(int many) {
  const CUcontext context = retain(0);
  CUstream first = nullptr, later = nullptr;
  REQUIRE(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  look(first);
  for (int i = 0; i < many; ++i) {
    std::thread([context] {
      CUdeviceptr block = 0;
      REQUIRE(cuCtxSetCurrent(context));
      REQUIRE(cuMemAllocAsync(&block, 1 << 16, CU_STREAM_PER_THREAD));
      use(CU_STREAM_PER_THREAD, block, 1 << 16, 20'000);
      REQUIRE(cuMemFreeAsync(block, CU_STREAM_PER_THREAD));
    }).join();
  }
  REQUIRE(cuStreamCreate(&later, CU_STREAM_NON_BLOCKING));
  look(later);
  look(first);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "async";
  REQUIRE(cuInit(0));
  if (std::strcmp(mode, "threads") != 0) simulated_control::clock_manual(true);
  if (std::strcmp(mode, "host") == 0) host(false);
  if (std::strcmp(mode, "host_of_a_made_one") == 0) host(true);
  if (std::strcmp(mode, "async") == 0) async();
  if (std::strcmp(mode, "foreign") == 0) foreign(false);
  if (std::strcmp(mode, "foreign_context") == 0) foreign(true);
  if (std::strcmp(mode, "threads") == 0) threads(argc > 2 ? std::atoi(argv[2]) : 2200);
}
