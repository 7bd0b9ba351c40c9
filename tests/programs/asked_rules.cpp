// Rules of a driver that tests rely on. Of most modes a GPU's answers are in
// tests/integration/programs/expected; "thread" and the modes of two devices wait for one. A mode asks one
// family: "ipc", "ipc_freed", "ipc_ended" memory of another process; "peers", "without_access" two devices;
// "registered" memory of the host; "managed", "managed_beyond", "managed_captured", "attach_N"; "pools",
// "pool_in_use", "pool_ended"; "graphs" with memory; "virtual" memory, "virtual_beyond"; "events"; a "thread"
// that ends; what a context's "end" takes along, "end_host", "end_pool". Prints codes and relations. Exits 77
// where devices are wanting. Run plain and preloaded by the integration and GPU tests. "thread" has two
// threads, others one in each process.
#include "tests/programs/asked_rules.hpp"

#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "tests/programs/asked_rules_captured.hpp"
#include "tests/programs/asked_rules_pools.hpp"

namespace {

using namespace programs;

void* pages() {
  void* const made = mmap(nullptr, 4 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE_CODE(made == MAP_FAILED, 0);
  return made;
}

// Memory of the second device and of the first, whose context is current.
struct pair {
  CUcontext first, second;
  CUdeviceptr near, far;
};

pair two_devices() {
  int devices = 0;
  REQUIRE(cuDeviceGetCount(&devices));
  if (devices < 2) {
    std::printf("needs two devices, %d found\n", devices);
    std::exit(77);
  }
  CUcontext const first = primary(0), second = primary(1);
  CUdeviceptr const far = make(mib);
  REQUIRE(cuMemsetD8(far, 5, mib));
  REQUIRE(cuCtxSynchronize());
  REQUIRE(cuCtxSetCurrent(first));
  return {first, second, make(mib), far};
}

void without_access() {
  pair const of = two_devices();
  show("a copy from a peer", cuMemcpyDtoD(of.near, of.far, mib));
  show("its end", cuCtxSynchronize());
  holds("  then it has the peer's bytes", of.near, 5);
  ask("the peer's memory", of.far);
  show("a free of the peer's memory", cuMemFree(of.far));
  show("a free", cuMemFree(of.near));
}

void peers() {
  pair of = two_devices();
  show("cuMemcpyPeer without access", cuMemcpyPeer(of.near, of.first, of.far, of.second, mib));
  show("cuCtxDisablePeerAccess, never enabled", cuCtxDisablePeerAccess(of.second));
  show("cuCtxEnablePeerAccess, flags 1", cuCtxEnablePeerAccess(of.second, 1));
  show("cuCtxEnablePeerAccess of the current", cuCtxEnablePeerAccess(of.first, 0));
  show("cuCtxEnablePeerAccess", cuCtxEnablePeerAccess(of.second, 0));
  show("again", cuCtxEnablePeerAccess(of.second, 0));
  show("again, flags 1", cuCtxEnablePeerAccess(of.second, 1));
  show("a fill of the peer's memory", cuMemsetD8(of.far, 7, mib));
  holds("  then it has them", of.far, 7);
  show("a free of the peer's memory", cuMemFree(of.far));
  show("the peer is reset", cuDevicePrimaryCtxReset(1));
  show("released", cuDevicePrimaryCtxRelease(1));
  REQUIRE(cuDevicePrimaryCtxRetain(&of.second, 1));
  show("access after that, disabled", cuCtxDisablePeerAccess(of.second));
  show("enabled", cuCtxEnablePeerAccess(of.second, 0));
  show("disabled", cuCtxDisablePeerAccess(of.second));
  show("disabled again", cuCtxDisablePeerAccess(of.second));
  show("a free", cuMemFree(of.near));
}

void registered() {
  char* const at = static_cast<char*>(pages());
  CUcontext const first = primary(0);
  CUcontext second = nullptr;
  auto const put = [&](const char* what, std::size_t from, std::size_t bytes, unsigned flags = 0) {
    show(what, cuMemHostRegister(at + from, bytes, flags));
  };
  auto const off = [&](const char* what, std::size_t from) { show(what, cuMemHostUnregister(at + from)); };
  // What is refused, as a rule; where it is not it goes at once.
  auto const try_put = [&](const char* what, std::size_t from, std::size_t bytes, unsigned flags = 0) {
    CUresult const code = cuMemHostRegister(at + from, bytes, flags);
    show(what, code);
    if (code == CUDA_SUCCESS) off("  unregistered", from);
  };
  try_put("no bytes", 0, 0);
  try_put("flags 0x80", mib, mib, 0x80);
  put("the second MiB of four", mib, mib);
  put("the same", mib, mib);
  try_put("its second half and more", mib + mib / 2, mib);
  try_put("its first half and what is before", mib / 2, mib);
  try_put("a page within", mib + 8192, 4096);
  try_put("what is around it", 0, 4 * mib);
  off("unregistered at its middle", mib + mib / 2);
  off("unregistered where nothing is", 3 * mib);
  unsigned flags = 0x55;
  show("cuMemHostGetFlags", cuMemHostGetFlags(&flags, at + mib));
  std::printf("  %u\n", flags);
  ask("its middle", reinterpret_cast<CUdeviceptr>(at + mib + mib / 2));
  show("cuMemFreeHost of it", cuMemFreeHost(at + mib));
  show("cuMemFree of it", cuMemFree(reinterpret_cast<CUdeviceptr>(at + mib)));
  REQUIRE(cuCtxCreate_v2(&second, 0, 0));
  put("the same, in another context", mib, mib);
  show("its device address there", device_address(at + mib));
  off("unregistered there", mib);
  put("portable, half a page", 2 * mib + 100, 2000, CU_MEMHOSTREGISTER_PORTABLE);
  put("the rest of its page", 2 * mib + 2100, 1000);
  off("both unregistered", 2 * mib + 100);
  off("both unregistered", 2 * mib + 2100);
  put("of a context that ends", 0, mib);
  REQUIRE(cuCtxDestroy(second));
  REQUIRE(cuCtxSetCurrent(first));
  ask("it, after the end", reinterpret_cast<CUdeviceptr>(at));
  put("after the end", 0, mib);
  off("unregistered", 0);
  off("again", 0);
}

void managed() {
  CUdeviceptr block = 0, plain = make(mib);
  REQUIRE(cuMemAllocManaged(&block, mib, CU_MEM_ATTACH_GLOBAL));
  CUstream const on = stream_of_own();
  CUmemLocation const device{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, host{CU_MEM_LOCATION_TYPE_HOST, {0}},
      nowhere{CU_MEM_LOCATION_TYPE_DEVICE, {99}}, negative{CU_MEM_LOCATION_TYPE_DEVICE, {-3}},
      invalid{CU_MEM_LOCATION_TYPE_INVALID, {0}};
  auto const advise = [&](const char* what, CUmem_advise advice, const CUmemLocation& where) {
    std::printf("%s\n", what);
    show("  the block", cuMemAdvise(block, mib, advice, where));
    show("  half of it", cuMemAdvise(block + mib / 2, mib / 2, advice, where));
    show("  no bytes", cuMemAdvise(block, 0, advice, where));
    show("  memory of the device", cuMemAdvise(plain, mib, advice, where));
  };
  advise("read mostly", CU_MEM_ADVISE_SET_READ_MOSTLY, invalid);
  advise("preferred location, device 99", CU_MEM_ADVISE_SET_PREFERRED_LOCATION, nowhere);
  advise("preferred location, device -3", CU_MEM_ADVISE_SET_PREFERRED_LOCATION, negative);
  advise("preferred location, invalid", CU_MEM_ADVISE_SET_PREFERRED_LOCATION, invalid);
  advise("preferred location, the host", CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  advise("accessed by the device", CU_MEM_ADVISE_SET_ACCESSED_BY, device);
  advise("not preferred, device 99", CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, nowhere);
  advise("no such advice", static_cast<CUmem_advise>(7), device);
  auto const prefetch = [&](const char* what, CUdeviceptr from, std::size_t bytes, const CUmemLocation& to,
                            unsigned flags = 0) {
    show(what, cuMemPrefetchAsync(from, bytes, to, flags, on));
  };
  prefetch("prefetch to the device", block, mib, device);
  prefetch("to the host", block, mib, host);
  prefetch("to device 99", block, mib, nowhere);
  prefetch("to an invalid place", block, mib, invalid);
  prefetch("flags 1", block, mib, device, 1);
  prefetch("no bytes", block, 0, device);
  prefetch("100 bytes of its inside", block + 100, 100, device);
  prefetch("memory of the device", plain, mib, device);
  auto const attach = [&](const char* what, CUstream to, CUdeviceptr from, std::size_t bytes,
                          unsigned flags) { show(what, cuStreamAttachMemAsync(to, from, bytes, flags)); };
  attach("attached to a stream", on, block, 0, CU_MEM_ATTACH_SINGLE);
  attach("to the legacy stream", CU_STREAM_LEGACY, block, 0, CU_MEM_ATTACH_SINGLE);
  attach("to the host", on, block, mib, CU_MEM_ATTACH_HOST);
  attach("to all", on, block, mib, CU_MEM_ATTACH_GLOBAL);
  attach("half of it", on, block, mib / 2, CU_MEM_ATTACH_GLOBAL);
  attach("its middle", on, block + mib / 2, 0, CU_MEM_ATTACH_GLOBAL);
  attach("memory of the device", on, plain, 0, CU_MEM_ATTACH_GLOBAL);
  attach("attached to a stream", on, block, 0, CU_MEM_ATTACH_SINGLE);
  show("which is destroyed", cuStreamDestroy(on));
  show("the end of it all", cuCtxSynchronize());
  show("a free", cuMemFree(block));
  show("a free", cuMemFree(plain));
}

// By flags that there are not; by none a driver crashes (580.159).
void attached_by(unsigned flags) {
  CUdeviceptr block = 0;
  REQUIRE(cuMemAllocManaged(&block, mib, CU_MEM_ATTACH_GLOBAL));
  show("attached", cuStreamAttachMemAsync(stream_of_own(), block, 0, flags));
  show("the end of it all", cuCtxSynchronize());
  show("a free", cuMemFree(block));
}

// More than the block has: within its last 2 MiB, and beyond.
void managed_beyond() {
  CUdeviceptr block = 0;
  REQUIRE(cuMemAllocManaged(&block, mib, CU_MEM_ATTACH_GLOBAL));
  CUmemLocation const device{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  for (std::size_t bytes : {mib + 1, mib + 4096, mib + 65536, 2 * mib, 2 * mib + 1, 64 * mib}) {
    std::printf("%zu bytes of a block of 1 MiB\n", bytes);
    show("  advice", cuMemAdvise(block, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    show("  a prefetch", cuMemPrefetchAsync(block, bytes, device, 0, CU_STREAM_LEGACY));
  }
  show("the end of it all", cuCtxSynchronize());
  show("a free", cuMemFree(block));
}

// A graph with memory that a launch leaves to the program, or gives back itself.
CUgraph captured(CUstream on, CUdeviceptr& inside, bool gives_back) {
  CUgraph made = nullptr;
  REQUIRE(cuStreamBeginCapture(on, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE(cuMemAllocAsync(&inside, mib, on));
  REQUIRE(cuMemsetD8Async(inside, 6, mib, on));
  if (gives_back) REQUIRE(cuMemFreeAsync(inside, on));
  REQUIRE(cuStreamEndCapture(on, &made));
  return made;
}

void graphs() {
  CUstream const on = stream_of_own();
  CUdeviceptr left = 0, inner = 0;
  CUgraph const leaves = captured(on, left, false), gives = captured(on, inner, true);
  CUgraphExec ready = nullptr, second = nullptr;
  ask("memory of a graph that was not launched", left);
  show("a graph", cuGraphInstantiateWithFlags(&ready, leaves, 0));
  show("a second time", cuGraphInstantiateWithFlags(&second, leaves, 0));
  if (second != nullptr) show("  destroyed", cuGraphExecDestroy(second));
  auto const launch = [&](const char* what) {
    show(what, cuGraphLaunch(ready, on));
    show("  its end", cuStreamSynchronize(on));
  };
  show("uploaded", cuGraphUpload(ready, on));
  launch("launched");
  holds("  its memory is there", left, 6);
  ask("it", left);
  launch("launched again");
  show("uploaded", cuGraphUpload(ready, on));
  show("a free in order", cuMemFreeAsync(left, on));
  launch("launched again");
  show("a free without a stream", cuMemFree(left));
  ask("it", left);
  launch("launched again");
  show("the executable graph destroyed", cuGraphExecDestroy(ready));
  show("the graph destroyed", cuGraphDestroy(leaves));
  ask("its memory", left);
  show("a free in order", cuMemFreeAsync(left, on));
  REQUIRE(cuStreamSynchronize(on));
  show("a graph that gives back", cuGraphInstantiateWithFlags(&ready, gives, 0));
  launch("launched");
  launch("launched again");
  ask("its memory", inner);
  REQUIRE(cuGraphExecDestroy(ready));
  REQUIRE(cuGraphDestroy(gives));
  CUgraph const again = captured(on, left, false);
  show("freed by launches",
       cuGraphInstantiateWithFlags(&ready, again, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  launch("launched");
  launch("launched again");
  show("a free in order", cuMemFreeAsync(left, on));
  launch("launched again");
  show("a free in order", cuMemFreeAsync(left, on));
  REQUIRE(cuStreamSynchronize(on));
  REQUIRE(cuGraphExecDestroy(ready));
  REQUIRE(cuGraphDestroy(again));
}

void events() {
  CUcontext const first = primary(0);
  CUcontext second = nullptr;
  CUevent timed[2] = {}, untimed = nullptr, elsewhere = nullptr;
  for (unsigned flags : {2u, 3u, 4u, 6u, 7u, 8u, 16u}) {
    CUevent made = nullptr;
    std::printf("flags %u\n", flags);
    show("  cuEventCreate", cuEventCreate(&made, flags));
    if (made != nullptr) REQUIRE(cuEventDestroy(made));
  }
  for (CUevent& each : timed) REQUIRE(cuEventCreate(&each, CU_EVENT_DEFAULT));
  REQUIRE(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  CUstream const on = stream_of_own();
  auto const elapsed = [&](const char* what, CUevent from, CUevent to) {
    float time = -1;
    show(what, cuEventElapsedTime(&time, from, to));
    std::printf("  %s\n", time == -1 ? "left alone" : time < 0 ? "negative" : "written");
  };
  show("asked, never recorded", cuEventQuery(timed[0]));
  show("waited for, never recorded", cuEventSynchronize(timed[0]));
  show("by a stream", cuStreamWaitEvent(on, timed[0], 0));
  show("by a stream, flags 2", cuStreamWaitEvent(on, timed[0], 2));
  elapsed("between two that were never recorded", timed[0], timed[1]);
  for (CUevent each : {timed[0], timed[1], untimed}) REQUIRE(cuEventRecord(each, on));
  REQUIRE(cuStreamSynchronize(on));
  elapsed("between two", timed[0], timed[1]);
  elapsed("of one", timed[0], timed[0]);
  elapsed("with one that has no time", timed[0], untimed);
  show("no result", cuEventElapsedTime(nullptr, timed[0], timed[1]));
  show("recorded as external", cuEventRecordWithFlags(timed[0], on, CU_EVENT_RECORD_EXTERNAL));
  show("recorded with flags 2", cuEventRecordWithFlags(timed[0], on, 2));
  REQUIRE(cuCtxCreate_v2(&second, 0, 0));
  REQUIRE(cuEventCreate(&elsewhere, CU_EVENT_DEFAULT));
  CUstream const other = stream_of_own();
  show("recorded on another context's stream", cuEventRecord(timed[0], other));
  show("recorded on the current legacy stream", cuEventRecord(timed[0], CU_STREAM_LEGACY));
  show("recorded of another context", cuCtxRecordEvent(first, elsewhere));
  show("recorded of all of its context", cuCtxRecordEvent(second, elsewhere));
  show("waited for by another context's stream", cuStreamWaitEvent(on, elsewhere, 0));
  show("waited for by all of another context", cuCtxWaitEvent(first, elsewhere));
  REQUIRE(cuCtxSynchronize());
  elapsed("between those of two contexts", timed[1], elsewhere);
  REQUIRE(cuCtxDestroy(second));
  REQUIRE(cuCtxSetCurrent(first));
  show("the first context's are there", cuEventQuery(timed[0]));
}

// With work on its own default stream. Natively it hangs now and then (580.159).
void thread_that_ends() {
  CUcontext const first = primary(0);
  CUdeviceptr const block = make(64 * mib);
  std::thread([&] {
    REQUIRE(cuCtxSetCurrent(first));
    for (unsigned char value = 1; value <= 3; ++value)
      REQUIRE(cuMemsetD8Async(block, value, 64 * mib, CU_STREAM_PER_THREAD));
  }).join();
  show("the end of its work", cuCtxSynchronize());
  holds("  it was done", block, 3);
  show("a free", cuMemFree(block));
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what a crash leaves is read
  REQUIRE_CODE(count, 2);
  std::string_view const mode = arguments[1];
  if (mode.starts_with("ipc")) return of_another_process(mode);  // it forks first
  REQUIRE(cuInit(0));
  primary(0);
  struct {
    std::string_view name;
    void (*ask)();
  } const modes[] = {
      {"peers", peers},
      {"without_access", without_access},
      {"registered", registered},
      {"managed", managed},
      {"managed_beyond", managed_beyond},
      {"attach_0", [] { attached_by(0); }},
      {"attach_3", [] { attached_by(3); }},
      {"attach_8", [] { attached_by(8); }},
      {"managed_captured", managed_captured},
      {"managed_small", managed_small},
      {"captured_oddly", captured_oddly},
      {"virtual_beyond", virtual_beyond},
      {"pools", pools},
      {"pool_in_use", pool_in_use},
      {"pool_ended", pool_that_ended},
      {"graphs", graphs},
      {"virtual", virtual_memory},
      {"events", events},
      {"thread", thread_that_ends},
      {"end", end_of_a_context},
      {"end_host", end_of_host_memory},
      {"end_pool", end_of_a_pools_memory},
  };
  auto const* const found =
      std::find_if(std::begin(modes), std::end(modes), [&](auto const& each) { return each.name == mode; });
  REQUIRE_CODE(found == std::end(modes), false);
  found->ask();
  std::printf("done\n");
}
