// What a call costs that gpumem sees and the driver answers, or that frees and requests of other kinds make:
// no program is to pay for what it does not use. The driver's functions, as the runtime looks them up, each
// in a loop of its own; pairs where something is made. The allocator is asked for one live block. One thread.
#include <cuda.h>

#include <cstring>
#include <initializer_list>

#include "tests/bench/workloads/workloads.hpp"

namespace {

class calls {
 public:
  calls(const bench::options& wanted, CUdeviceptr block, CUstream on)
      : budget_(wanted.seconds * 1e9), only_(wanted.only), block_(block), on_(on) {}

  void memory_of_other_kinds();
  void pools();
  void streams_and_contexts();
  void questions();

 private:
  // Nothing is told of what this driver has not, or refuses.
  template <typename Step>
  void tell(const char* name, Step step) {
    if (std::strstr(name, only_) == nullptr || step() != CUDA_SUCCESS) return;
    bench::emit("calls", name, "call", bench::median_of_batches(budget_, step), "ns");
  }
  template <typename... Arguments>
  static auto function(const char* name, unsigned version) {
    return bench::driver_function<CUresult (*)(Arguments...)>(name, version);
  }

  double budget_;
  const char* only_;
  CUdeviceptr block_;
  CUstream on_;
};

// Called from the first to the last: a list in braces is.
CUresult all_of(std::initializer_list<CUresult> codes) {
  for (const CUresult code : codes)
    if (code != CUDA_SUCCESS) return code;
  return CUDA_SUCCESS;
}

void calls::memory_of_other_kinds() {
  const auto release = function<CUdeviceptr>("cuMemFree", 3020);
  const auto managed = function<CUdeviceptr*, size_t, unsigned>("cuMemAllocManaged", 6000);
  const auto pitched = function<CUdeviceptr*, size_t*, size_t, size_t, unsigned>("cuMemAllocPitch", 3020);
  const auto host = function<void**, size_t, unsigned>("cuMemHostAlloc", 2020);
  const auto host_free = function<void*>("cuMemFreeHost", 2000);
  const auto create =
      function<CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long>(
          "cuMemCreate", 10020);
  const auto destroy = function<CUmemGenericAllocationHandle>("cuMemRelease", 10020);
  const auto pin = function<void*, size_t, unsigned>("cuMemHostRegister", 6050);
  const auto unpin = function<void*>("cuMemHostUnregister", 4000);
  CUdeviceptr made = 0;
  tell("cuMemAllocManaged, 1 MiB; cuMemFree", [&] {
    return all_of({managed(&made, 1 << 20, CU_MEM_ATTACH_GLOBAL), release(made)});
  });
  size_t pitch = 0;
  tell("cuMemAllocPitch, 1,000 x 100; cuMemFree", [&] {
    return all_of({pitched(&made, &pitch, 1000, 100, 4), release(made)});
  });
  void* pages = nullptr;
  tell("cuMemHostAlloc, 64 KiB; cuMemFreeHost", [&] {
    return all_of({host(&pages, 64 << 10, 0), host_free(pages)});
  });
  CUmemAllocationProp device{};
  device.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  device.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0;
  tell("cuMemCreate, 2 MiB; cuMemRelease", [&] {
    return all_of({create(&handle, 2 << 20, &device, 0), destroy(handle)});
  });
  std::vector<char> own(64 << 10);
  tell("cuMemHostRegister, 64 KiB; cuMemHostUnregister", [&] {
    return all_of({pin(own.data(), own.size(), 0), unpin(own.data())});
  });
}

void calls::pools() {
  const auto make = function<CUmemoryPool*, const CUmemPoolProps*>("cuMemPoolCreate", 11020);
  const auto destroy = function<CUmemoryPool>("cuMemPoolDestroy", 11020);
  const auto from = function<CUdeviceptr*, size_t, CUmemoryPool, CUstream>("cuMemAllocFromPoolAsync", 11020);
  const auto release = function<CUdeviceptr, CUstream>("cuMemFreeAsync", 11020);
  const auto usual = function<CUmemoryPool*, CUdevice>("cuDeviceGetDefaultMemPool", 11020);
  const auto get = function<CUmemoryPool, CUmemPool_attribute, void*>("cuMemPoolGetAttribute", 11020);
  const auto set = function<CUmemoryPool, CUmemPool_attribute, void*>("cuMemPoolSetAttribute", 11020);
  const auto trim = function<CUmemoryPool, size_t>("cuMemPoolTrimTo", 11020);
  CUmemPoolProps device{};
  device.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  device.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr, own = nullptr;
  tell("cuMemPoolCreate; cuMemPoolDestroy", [&] { return all_of({make(&pool, &device), destroy(pool)}); });
  REQUIRE(static_cast<cudaError_t>(make(&own, &device)));
  std::uint64_t most = ~std::uint64_t{0}, used = 0;
  set(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most);
  CUdeviceptr made = 0;
  tell("cuMemAllocFromPoolAsync, 64 KiB; cuMemFreeAsync", [&] {
    return all_of({from(&made, 64 << 10, own, on_), release(made, on_)});
  });
  tell("cuMemPoolGetAttribute, of a pool", [&] { return get(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used); });
  tell("cuMemPoolSetAttribute, of a pool",
       [&] { return set(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most); });
  tell("cuMemPoolTrimTo, of a pool", [&] { return trim(own, std::size_t{1} << 40); });
  destroy(own);
  usual(&pool, 0);
  tell("cuMemPoolGetAttribute, of the default pool",
       [&] { return get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used); });
}

void calls::streams_and_contexts() {
  const auto make = function<CUstream*, unsigned>("cuStreamCreate", 2000);
  const auto destroy = function<CUstream>("cuStreamDestroy", 4000);
  const auto wait = function<CUstream, CUevent, unsigned>("cuStreamWaitEvent", 3020);
  const auto wait_for_all = function<>("cuCtxSynchronize", 2000);
  const auto current = function<CUcontext*>("cuCtxGetCurrent", 4000);
  const auto use = function<CUcontext>("cuCtxSetCurrent", 4000);
  const auto retain = function<CUcontext*, CUdevice>("cuDevicePrimaryCtxRetain", 7000);
  const auto give_up = function<CUdevice>("cuDevicePrimaryCtxRelease", 11000);
  const auto begin = function<CUstream, CUstreamCaptureMode>("cuStreamBeginCapture", 10010);
  const auto end = function<CUstream, CUgraph*>("cuStreamEndCapture", 10000);
  const auto destroy_graph = function<CUgraph>("cuGraphDestroy", 10000);
  CUstream made = nullptr;
  tell("cuStreamCreate; cuStreamDestroy", [&] {
    return all_of({make(&made, CU_STREAM_NON_BLOCKING), destroy(made)});
  });
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  REQUIRE(cudaEventRecord(event, on_));
  tell("cuStreamWaitEvent", [&] { return wait(on_, event, 0); });
  tell("cuCtxSynchronize", [&] { return wait_for_all(); });
  CUcontext context = nullptr;
  current(&context);
  tell("cuCtxSetCurrent", [&] { return use(context); });
  tell("cuDevicePrimaryCtxRetain; cuDevicePrimaryCtxRelease", [&] {
    return all_of({retain(&context, 0), give_up(0)});
  });
  CUgraph graph = nullptr;
  tell("cuStreamBeginCapture; cuStreamEndCapture; cuGraphDestroy", [&] {
    return all_of({begin(on_, CU_STREAM_CAPTURE_MODE_RELAXED), end(on_, &graph), destroy_graph(graph)});
  });
  REQUIRE(cudaEventDestroy(event));
}

void calls::questions() {
  const auto info = function<size_t*, size_t*>("cuMemGetInfo", 3020);
  const auto total = function<size_t*, CUdevice>("cuDeviceTotalMem", 3020);
  const auto attribute = function<void*, CUpointer_attribute, CUdeviceptr>("cuPointerGetAttribute", 4000);
  const auto handle = function<CUipcMemHandle*, CUdeviceptr>("cuIpcGetMemHandle", 4010);
  const auto set = function<const void*, CUpointer_attribute, CUdeviceptr>("cuPointerSetAttribute", 6000);
  const auto entry = function<const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*>(
      "cuGetProcAddress", 12000);
  size_t free = 0, all = 0;
  tell("cuMemGetInfo", [&] { return info(&free, &all); });
  tell("cuDeviceTotalMem", [&] { return total(&all, 0); });
  unsigned kind = 0;
  tell("cuPointerGetAttribute", [&] { return attribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block_); });
  int ordinal = 0;
  std::vector<char> own(1 << 10);
  const auto host_address = reinterpret_cast<CUdeviceptr>(own.data());
  const bool knows_host =
      attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, host_address) == CUDA_SUCCESS;
  if (!knows_host)
    tell("cuPointerGetAttribute, of the host's memory", [&] {
      return attribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host_address) != CUDA_SUCCESS
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_UNKNOWN;
    });
  CUipcMemHandle shared{};
  tell("cuIpcGetMemHandle", [&] { return handle(&shared, block_); });
  unsigned on = 1;
  tell("cuPointerSetAttribute", [&] { return set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block_); });
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  tell("cuGetProcAddress", [&] { return entry("cuMemAlloc", &found, 12000, 0, &status); });
}

}  // namespace

void bench::calls(allocator& memory, const options& wanted) {
  const stream own;
  void* const block = memory.allocate(1 << 20, own.get());
  ::calls each(wanted, reinterpret_cast<CUdeviceptr>(block), own.get());
  each.memory_of_other_kinds();
  each.pools();
  each.streams_and_contexts();
  each.questions();
  memory.free(block, 1 << 20, own.get());
}
