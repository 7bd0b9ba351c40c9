// Calls by a thread whose current context another thread has ended, as where a library resets the device
// under its workers: "released" or "reset", a primary one; "destroyed", one of cuCtxCreate. Each call that
// needs a context is made there, with arguments that it takes and that it does not, and questions about
// memory of a context that lives. "frees": whole blocks of one that lives are freed under one that was
// released, and memory is asked for beside a capture; there a GPU was compared with itself alone, but for the
// frees of managed memory. "faulted": the context has not ended, a kernel of it faulted, and its stream said
// so; by one thread, as natively one that ends then may not come back where it had work on its own default
// stream (580.159). Prints the codes. Run plain and preloaded by the integration and GPU tests. Two threads.
#include <cuda.h>

#include <string_view>
#include <thread>

#include "tests/programs/context_questions.hpp"
#include "tests/programs/driver_fault.hpp"
#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

constexpr std::size_t too_much = std::size_t{16} << 40;

void requests() {
  CUdeviceptr block = 0x5555;
  std::size_t pitch = 0x55;
  void* host = nullptr;
  for (std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{40} << 20, too_much}) {
    std::printf("%zu bytes\n", bytes);
    show("cuMemAlloc", cuMemAlloc(&block, bytes));
    show("cuMemAllocPitch", cuMemAllocPitch(&block, &pitch, bytes, 3, 4));
    show("cuMemAllocManaged", cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
    show("cuMemAllocManaged, no such flags", cuMemAllocManaged(&block, bytes, 77));
    show("cuMemAllocAsync, legacy", cuMemAllocAsync(&block, bytes, CU_STREAM_LEGACY));
    show("cuMemAllocAsync, per thread", cuMemAllocAsync(&block, bytes, CU_STREAM_PER_THREAD));
    show("cuMemAllocHost", cuMemAllocHost(&host, bytes));
    show("cuMemHostAlloc", cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE));
  }
  std::printf("left behind %d %zu %d\n", block == 0x5555, pitch, host == nullptr);
  show("cuMemAlloc(null)", cuMemAlloc(nullptr, 4096));
  show("cuMemAllocAsync(null)", cuMemAllocAsync(nullptr, 4096, CU_STREAM_LEGACY));
  show("cuMemHostAlloc, no such flags", cuMemHostAlloc(&host, 4096, 777));
}

void frees(const char* name, CUdeviceptr block) {
  std::printf("frees of %s\n", name);
  void* const as_host = reinterpret_cast<void*>(block);
  show("cuMemFreeHost of its middle", cuMemFreeHost(static_cast<char*>(as_host) + 64));
  show("cuMemFree of its middle", cuMemFree(block + 64));
  show("cuMemFreeAsync of its middle", cuMemFreeAsync(block + 64, CU_STREAM_LEGACY));
}

void ranges(CUdeviceptr address) {
  CUdeviceptr base = 0x5555;
  std::size_t bytes = 0x55;
  show("cuMemGetAddressRange", cuMemGetAddressRange(&base, &bytes, address));
  std::printf("  base %s, bytes %s\n",
              base == 0        ? "zeroed"
              : base == 0x5555 ? "left alone"
                               : "written",
              bytes == 0      ? "zeroed"
              : bytes == 0x55 ? "left alone"
                              : "written");
}

void contexts_and_streams(CUcontext ended) {
  CUdevice device = -5;
  unsigned flags = 77;
  unsigned version = 0;
  unsigned long long number = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  int priority = 0;
  CUcontext current = nullptr;
  show("cuCtxGetCurrent", cuCtxGetCurrent(&current));
  std::printf("  the ended one: %d\n", current == ended);
  show("cuCtxGetDevice", cuCtxGetDevice(&device));
  std::printf("  device %d\n", device);
  show("cuCtxGetId", cuCtxGetId(ended, &number));
  show("cuCtxGetId(null)", cuCtxGetId(nullptr, &number));
  show("cuCtxGetFlags", cuCtxGetFlags(&flags));
  show("cuCtxGetApiVersion", cuCtxGetApiVersion(ended, &version));
  show("cuCtxGetStreamPriorityRange", cuCtxGetStreamPriorityRange(nullptr, &priority));
  show("cuMemGetInfo", cuMemGetInfo(&free, &total));
  show("cuCtxSynchronize", cuCtxSynchronize());
  for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    CUstreamCaptureStatus status{};
    std::printf("stream %d\n", static_cast<int>(reinterpret_cast<std::uintptr_t>(stream)));
    show("cuStreamIsCapturing", cuStreamIsCapturing(stream, &status));
    show("cuStreamGetCtx", cuStreamGetCtx(stream, &current));
    show("cuStreamGetFlags", cuStreamGetFlags(stream, &flags));
    show("cuStreamGetPriority", cuStreamGetPriority(stream, &priority));
    show("cuStreamQuery", cuStreamQuery(stream));
    show("cuStreamSynchronize", cuStreamSynchronize(stream));
  }
  CUstream made = nullptr;
  CUevent event = nullptr;
  show("cuStreamCreate", cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  show("cuStreamCreate, no such flags", cuStreamCreate(&made, 6));
  show("cuEventCreate", cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  show("cuThreadExchangeStreamCaptureMode", cuThreadExchangeStreamCaptureMode(&mode));
  show("back", cuThreadExchangeStreamCaptureMode(&mode));
}

void mappings() {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  constexpr std::size_t bytes = 4 << 20;
  show("cuMemCreate", cuMemCreate(&handle, bytes, &wanted, 0));
  show("cuMemAddressReserve", cuMemAddressReserve(&range, bytes, 0, 0, 0));
  if (handle == 0 || range == 0) return;
  show("cuMemMap", cuMemMap(range, bytes, 0, handle, 0));
  show("cuMemSetAccess", cuMemSetAccess(range, bytes, &access, 1));
  show("cuMemUnmap", cuMemUnmap(range, bytes));
  show("cuMemRelease", cuMemRelease(handle));
  show("cuMemAddressFree", cuMemAddressFree(range, bytes));
}

void in_dead(CUcontext ended, const blocks& live) {
  contexts_and_streams(ended);
  requests();
  frees("nothing", 0x7000000);
  show("cuMemFree(0)", cuMemFree(0));
  show("cuMemFreeHost(null)", cuMemFreeHost(nullptr));
  show("cuMemFreeAsync(0)", cuMemFreeAsync(0, CU_STREAM_LEGACY));
  frees("plain memory", live.plain);
  frees("stream-ordered memory", live.ordered);
  frees("managed memory", live.managed);
  frees("pinned memory", live.pinned);
  show("cuMemFreeHost of plain memory", cuMemFreeHost(reinterpret_cast<void*>(live.plain)));
  show("cuMemFreeHost of ordered memory", cuMemFreeHost(reinterpret_cast<void*>(live.ordered)));
  show("cuMemFree of pinned memory", cuMemFree(live.pinned));
  ask_all(live);
  for (CUdeviceptr address : {live.plain, live.ordered, live.managed, live.pinned, CUdeviceptr{0x7000000}})
    ranges(address);
  mappings();
}

void whole(const blocks& first, const blocks& second) {
  show("cuMemFree of plain memory", cuMemFree(first.plain));
  show("cuMemFree of managed memory", cuMemFree(first.managed));
  show("cuMemFree of stream-ordered memory", cuMemFree(first.ordered));
  show("cuMemFreeHost of pinned memory", cuMemFreeHost(reinterpret_cast<void*>(first.pinned)));
  show("cuMemFreeAsync of plain memory", cuMemFreeAsync(second.plain, CU_STREAM_LEGACY));
  show("cuMemFreeAsync of ordered memory", cuMemFreeAsync(second.ordered, CU_STREAM_PER_THREAD));
}

void beside_a_capture(CUstream captured, CUstream beside) {
  CUdeviceptr block = 0;
  CUgraph graph = nullptr;
  show("a capture of a stream of the other", cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
  show("cuMemAllocAsync beside it", cuMemAllocAsync(&block, 4096, beside));
  show("its end", cuStreamEndCapture(captured, &graph));
  if (block != 0) show("cuMemFreeAsync", cuMemFreeAsync(block, beside));
}

// Those that are there still.
void then(const blocks& first, const blocks& second) {
  for (CUdeviceptr each : {first.plain, first.managed, first.ordered, second.plain, second.ordered})
    show("then", cuMemFree(each));
  show("then", cuMemFreeHost(reinterpret_cast<void*>(first.pinned)));
  show("then", cuMemFree(second.managed));
  show("then", cuMemFreeHost(reinterpret_cast<void*>(second.pinned)));
}

void in_faulted(CUcontext context, CUcontext lives, const blocks& live) {
  REQUIRE(cuCtxSetCurrent(context));
  drop(make(4096));
  CUstream stream = nullptr;
  CUdeviceptr ordered = 0;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuMemAllocAsync(&ordered, 4096, stream));
  REQUIRE(cuMemFreeAsync(ordered, stream));
  fault_on(stream);
  show("cuStreamSynchronize", cuStreamSynchronize(stream));
  in_dead(context, live);
  show("cuCtxSetCurrent of the other", cuCtxSetCurrent(lives));
  whole(live, live);
  then(live, live);
}

}  // namespace

int main(int, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what a crash leaves is read
  std::string_view const how = arguments[1];
  CUcontext lives = nullptr;
  REQUIRE(cuInit(0));
  REQUIRE(cuCtxCreate_v2(&lives, 0, 0));
  const blocks live = take_all();
  const blocks more = how == "frees" ? take_all() : blocks{};
  CUstream streams[2] = {};
  for (CUstream& each : streams) REQUIRE(cuStreamCreate(&each, CU_STREAM_NON_BLOCKING));
  CUcontext context = nullptr;
  if (how == "destroyed") {
    REQUIRE(cuCtxCreate_v2(&context, 0, 0));
    CUcontext popped = nullptr;
    REQUIRE(cuCtxPopCurrent(&popped));
  } else {
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0));
  }
  if (how == "faulted") {
    in_faulted(context, lives, live);
    return std::puts("done") < 0;
  }
  std::thread([&] {
    REQUIRE(cuCtxSetCurrent(context));
    drop(make(4096));
    CUdeviceptr ordered = 0;
    REQUIRE(cuMemAllocAsync(&ordered, 4096, CU_STREAM_PER_THREAD));
    REQUIRE(cuMemFreeAsync(ordered, CU_STREAM_PER_THREAD));
    std::thread([&] {
      if (how == "released" || how == "frees") REQUIRE(cuDevicePrimaryCtxRelease(0));
      if (how == "reset") REQUIRE(cuDevicePrimaryCtxReset(0));
      if (how == "destroyed") REQUIRE(cuCtxDestroy(context));
    }).join();
    if (how == "frees") {
      whole(live, more);
      beside_a_capture(streams[0], streams[1]);
    } else {
      in_dead(context, live);
    }
  }).join();
  how == "frees" ? then(live, more) : give_all(live);
  std::printf("done\n");
}
