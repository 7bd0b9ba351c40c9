// Which calls of the driver wait on the host for work that is none of theirs: one list, asked of a GPU
// (tests/gpu/waiting_calls.cu, beside a kernel that spins until the host says so) and of the simulated CUDA
// (tests/programs/waiting_calls.cpp). Both must print the same, and so must they under gpumem: a call that
// waits for nothing natively may then not wait either. `frees` are apart, as those wait natively and need not
// under gpumem.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/programs/support.hpp"

namespace programs {

// `Work`: start() puts work on `busy`, waited() ends it and says whether the call before had waited for it.
template <class Work>
class waiting_calls {
 public:
  waiting_calls(Work& work, CUdevice device, const char* beside, bool exports)
      : work_(work), device_(device), beside_(beside), exports_(exports) {
    REQUIRE(cuStreamCreate(&own_, CU_STREAM_NON_BLOCKING));
    REQUIRE(cuMemAlloc(&kept_, bytes));
    REQUIRE(cuMemsetD8(kept_, 1, bytes));
    REQUIRE(cuCtxSynchronize());
  }

  void ask_all() {
    allocations();
    frees_in_order();
    pools();
    questions();
    virtual_memory();
    streams_and_events();
    captures();
    arrays();
    copies();
  }
  // Last of all: where another context has ended, the driver (580.159) crashes at the end of a pool after one
  // that ended with memory in it (tests/gpu/pools_that_end.cu).
  void ask_about_contexts() {
    CUcontext now = nullptr, other = nullptr;
    REQUIRE(cuCtxGetCurrent(&now));
    ask("cuCtxCreate", [&] { return cuCtxCreate(&other, nullptr, 0, device_); });
    REQUIRE(cuCtxSetCurrent(now));
    ask("cuCtxDestroy of one without work", [&] { return cuCtxDestroy(other); });
    REQUIRE(cuCtxSetCurrent(now));
  }
  void ask_frees() {
    CUdeviceptr plain = 0, managed = 0, pooled = 0;
    void* host = nullptr;
    REQUIRE(cuMemAlloc(&plain, bytes));
    REQUIRE(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
    REQUIRE(cuMemHostAlloc(&host, bytes, 0));
    REQUIRE(cuMemAllocAsync(&pooled, bytes, own_));
    REQUIRE(cuStreamSynchronize(own_));
    ask("cuMemFree of pooled memory", [&] { return cuMemFree(pooled); });
    ask("cuMemFree", [&] { return cuMemFree(plain); });
    ask("cuMemFree of managed memory", [&] { return cuMemFree(managed); });
    ask("cuMemFreeHost", [&] { return cuMemFreeHost(host); });
  }

 private:
  static constexpr std::size_t bytes = std::size_t{8} << 20;

  template <typename Call>
  void ask(const char* name, Call&& call) {
    work_.start();
    const CUresult code = call();
    const bool waited = work_.waited();
    if (code != CUDA_SUCCESS) {
      std::printf("%s, %s: code %d\n", beside_, name, static_cast<int>(code));
    } else if (waited) {
      std::printf("%s, %s: waits\n", beside_, name);
    } else {
      std::printf("%s, %s: waits for nothing\n", beside_, name);
    }
  }

  void allocations() {
    CUdeviceptr plain = 0, pitched = 0, managed = 0, ordered = 0;
    void *host = nullptr, *old = nullptr;
    std::size_t pitch = 0;
    ask("cuMemAlloc", [&] { return cuMemAlloc(&plain, bytes); });
    ask("cuMemAllocPitch", [&] { return cuMemAllocPitch(&pitched, &pitch, 1000, 1000, 4); });
    ask("cuMemAllocManaged", [&] { return cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL); });
    ask("cuMemHostAlloc", [&] { return cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE); });
    ask("cuMemAllocHost", [&] { return cuMemAllocHost(&old, bytes); });
    ask("cuMemAllocAsync", [&] { return cuMemAllocAsync(&ordered, bytes, own_); });
    REQUIRE(cuMemFree(plain));
    REQUIRE(cuMemFree(pitched));
    REQUIRE(cuMemFree(managed));
    REQUIRE(cuMemFreeHost(host));
    REQUIRE(cuMemFreeHost(old));
    REQUIRE(cuMemFree(ordered));
    ask("cuMemAlloc of what was freed", [&] { return cuMemAlloc(&plain, bytes); });
    REQUIRE(cuMemFree(plain));
  }

  CUdeviceptr made(bool pooled) {
    CUdeviceptr block = 0;
    if (pooled) {
      REQUIRE(cuMemAllocAsync(&block, bytes, own_));
      REQUIRE(cuStreamSynchronize(own_));
    } else {
      REQUIRE(cuMemAlloc(&block, bytes));
    }
    return block;
  }
  void frees_in_order() {
    for (const bool pooled : {false, true}) {
      const char* const kind = pooled ? "pooled" : "plain";
      char name[100];
      for (const CUstream on : {own_, work_.busy(), CUstream{nullptr}}) {
        const CUdeviceptr block = made(pooled);
        std::snprintf(name, sizeof name, "cuMemFreeAsync of %s memory on %s", kind,
                      on == own_      ? "an idle stream"
                      : on == nullptr ? "stream 0"
                                      : "the busy stream");
        ask(name, [&] { return cuMemFreeAsync(block, on); });
      }
      CUdeviceptr next = 0;
      const CUdeviceptr block = made(pooled);
      std::snprintf(name, sizeof name, "cuMemAllocAsync on another stream after one of %s memory", kind);
      ask(name, [&] {
        REQUIRE(cuMemFreeAsync(block, work_.busy()));
        return cuMemAllocAsync(&next, bytes, own_);
      });
      REQUIRE(cuMemFree(next));
    }
  }

  CUmemoryPool made_pool() {
    CUmemPoolProps properties;
    std::memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device_;
    CUmemoryPool pool = nullptr;
    REQUIRE(cuMemPoolCreate(&pool, &properties));
    return pool;
  }
  CUdeviceptr made_in(CUmemoryPool pool) {
    CUdeviceptr block = 0;
    REQUIRE(cuMemAllocFromPoolAsync(&block, bytes, pool, own_));
    REQUIRE(cuStreamSynchronize(own_));
    return block;
  }
  void pools() {
    CUmemoryPool pool = nullptr;
    CUdeviceptr block = 0;
    ask("cuMemPoolCreate", [&] { return pool = made_pool(), CUDA_SUCCESS; });
    ask("cuMemAllocFromPoolAsync", [&] { return cuMemAllocFromPoolAsync(&block, bytes, pool, own_); });
    cuuint64_t keep = ~cuuint64_t{0};
    ask("cuMemPoolSetAttribute",
        [&] { return cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep); });
    ask("cuMemFreeAsync into a pool", [&] { return cuMemFreeAsync(block, own_); });
    ask("cuMemPoolTrimTo", [&] { return cuMemPoolTrimTo(pool, 0); });
    block = made_in(pool);
    ask("cuMemPoolTrimTo beside a free behind the work", [&] {
      REQUIRE(cuMemFreeAsync(block, work_.busy()));
      return cuMemPoolTrimTo(pool, 0);
    });
    ask("cuMemPoolDestroy", [&] { return cuMemPoolDestroy(pool); });
    pool = made_pool();
    block = made_in(pool);
    ask("cuMemPoolDestroy beside a free behind the work", [&] {
      REQUIRE(cuMemFreeAsync(block, work_.busy()));
      return cuMemPoolDestroy(pool);
    });
    pool = made_pool();
    block = made_in(pool);
    ask("cuMemPoolDestroy with memory in use", [&] { return cuMemPoolDestroy(pool); });
    ask("cuMemFreeAsync of the last memory of a destroyed pool",
        [&] { return cuMemFreeAsync(block, work_.busy()); });
  }

  void questions() {
    std::size_t free = 0, all = 0;
    CUdeviceptr base = 0;
    CUmemorytype kind{};
    CUipcMemHandle handle;
    int on = 1;
    ask("cuMemGetInfo", [&] { return cuMemGetInfo(&free, &all); });
    ask("cuMemGetAddressRange", [&] { return cuMemGetAddressRange(&base, &all, kept_); });
    ask("cuPointerGetAttribute",
        [&] { return cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kept_); });
    // Memory of a chain over vmm has no such attribute (801), which is not what is asked here.
    const auto set = [&] {
      const CUresult code = cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kept_);
      return code == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : code;
    };
    ask("cuPointerSetAttribute", set);
    on = 0;
    REQUIRE(set());
    if (exports_) ask("cuIpcGetMemHandle", [&] { return cuIpcGetMemHandle(&handle, kept_); });
    std::vector<char> pageable(bytes);
    ask("cuMemHostRegister", [&] { return cuMemHostRegister(pageable.data(), pageable.size(), 0); });
    ask("cuMemHostUnregister", [&] { return cuMemHostUnregister(pageable.data()); });
  }

  void virtual_memory() {
    CUmemAllocationProp properties;
    std::memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device_;
    CUmemAccessDesc access;
    std::memset(&access, 0, sizeof access);
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUdeviceptr range = 0;
    CUmemGenericAllocationHandle handle = 0;
    ask("cuMemAddressReserve", [&] { return cuMemAddressReserve(&range, bytes, 0, 0, 0); });
    ask("cuMemCreate", [&] { return cuMemCreate(&handle, bytes, &properties, 0); });
    ask("cuMemMap", [&] { return cuMemMap(range, bytes, 0, handle, 0); });
    ask("cuMemSetAccess", [&] { return cuMemSetAccess(range, bytes, &access, 1); });
    REQUIRE(cuMemsetD8(range, 1, bytes));
    REQUIRE(cuCtxSynchronize());
    ask("cuMemUnmap", [&] { return cuMemUnmap(range, bytes); });
    ask("cuMemRelease", [&] { return cuMemRelease(handle); });
    ask("cuMemAddressFree", [&] { return cuMemAddressFree(range, bytes); });
  }

  void streams_and_events() {
    CUstream made = nullptr;
    CUevent event = nullptr;
    ask("cuStreamCreate", [&] { return cuStreamCreate(&made, CU_STREAM_NON_BLOCKING); });
    ask("cuEventCreate", [&] { return cuEventCreate(&event, CU_EVENT_DISABLE_TIMING); });
    ask("cuEventRecord", [&] { return cuEventRecord(event, work_.busy()); });
    ask("cuStreamWaitEvent", [&] {
      REQUIRE(cuEventRecord(event, work_.busy()));
      return cuStreamWaitEvent(made, event, 0);
    });
    ask("cuStreamDestroy behind the work", [&] {
      REQUIRE(cuEventRecord(event, work_.busy()));
      REQUIRE(cuStreamWaitEvent(made, event, 0));
      return cuStreamDestroy(made);
    });
    ask("cuEventDestroy behind the work", [&] {
      REQUIRE(cuEventRecord(event, work_.busy()));
      return cuEventDestroy(event);
    });
    ask("cuStreamSynchronize of an idle stream", [&] { return cuStreamSynchronize(own_); });
    ask("cuLaunchHostFunc", [&] {
      return cuLaunchHostFunc(
          own_, [](void*) {}, nullptr);
    });
    REQUIRE(cuStreamSynchronize(own_));
  }

  void captures() {
    CUgraph graph = nullptr;
    CUgraphExec runs = nullptr;
    ask("a capture", [&] {
      REQUIRE(cuStreamBeginCapture(own_, CU_STREAM_CAPTURE_MODE_GLOBAL));
      REQUIRE(cuMemsetD8Async(kept_, 2, bytes, own_));
      return cuStreamEndCapture(own_, &graph);
    });
    ask("cuGraphInstantiate", [&] { return cuGraphInstantiate(&runs, graph, 0); });
    ask("cuGraphLaunch", [&] { return cuGraphLaunch(runs, own_); });
    REQUIRE(cuCtxSynchronize());
    ask("cuGraphExecDestroy", [&] { return cuGraphExecDestroy(runs); });
    ask("cuGraphDestroy", [&] { return cuGraphDestroy(graph); });
  }

  void arrays() {
    CUDA_ARRAY_DESCRIPTOR wanted;
    std::memset(&wanted, 0, sizeof wanted);
    wanted.Width = wanted.Height = 512;
    wanted.Format = CU_AD_FORMAT_FLOAT;
    wanted.NumChannels = 1;
    CUarray array = nullptr;
    ask("cuArrayCreate", [&] { return cuArrayCreate(&array, &wanted); });
    ask("cuArrayDestroy", [&] { return cuArrayDestroy(array); });
  }

  void copies() {
    std::vector<char> pageable(bytes);
    void* pinned = nullptr;
    REQUIRE(cuMemHostAlloc(&pinned, bytes, 0));
    ask("cuMemcpyHtoD", [&] { return cuMemcpyHtoD(kept_, pageable.data(), bytes); });
    ask("cuMemcpyDtoH", [&] { return cuMemcpyDtoH(pageable.data(), kept_, bytes); });
    ask("cuMemcpyHtoDAsync, pageable",
        [&] { return cuMemcpyHtoDAsync(kept_, pageable.data(), bytes, own_); });
    ask("cuMemcpyDtoHAsync, pageable",
        [&] { return cuMemcpyDtoHAsync(pageable.data(), kept_, bytes, own_); });
    ask("cuMemcpyHtoDAsync, pinned", [&] { return cuMemcpyHtoDAsync(kept_, pinned, bytes, own_); });
    ask("cuMemcpyDtoHAsync, pinned", [&] { return cuMemcpyDtoHAsync(pinned, kept_, bytes, own_); });
    ask("cuMemsetD8", [&] { return cuMemsetD8(kept_, 3, bytes); });
    ask("cuMemsetD8Async", [&] { return cuMemsetD8Async(kept_, 3, bytes, own_); });
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemFreeHost(pinned));
  }

  Work& work_;
  const CUdevice device_;
  const char* const beside_;
  const bool exports_;
  CUstream own_ = nullptr;
  CUdeviceptr kept_ = 0;
};

// Argument: `calls`, the same `without-exports`, or `frees`.
template <class Work>
int ask_calls(const char* mode) {
  for (const unsigned flags : {unsigned{CU_STREAM_NON_BLOCKING}, unsigned{CU_STREAM_DEFAULT}}) {
    Work work(flags);
    waiting_calls<Work> calls(work, 0,
                              flags == CU_STREAM_DEFAULT ? "beside a blocking stream" : "beside a stream",
                              std::strcmp(mode, "without-exports") != 0);
    if (std::strcmp(mode, "frees") == 0) {
      calls.ask_frees();
    } else {
      calls.ask_all();
      if (flags == CU_STREAM_DEFAULT) calls.ask_about_contexts();
    }
  }
  return 0;
}

}  // namespace programs
