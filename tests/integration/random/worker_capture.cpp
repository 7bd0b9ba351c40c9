// See worker.hpp. Here: captures, what happens beside them, and what is done with their graphs.
#include <thread>

#include "tests/integration/random/worker.hpp"

namespace random_program {

// The caller sees to it that nobody disturbs a capture of this mode; see world.hpp.
void worker::capture(CUstreamCaptureMode mode) {
  std::shared_lock const lock(all_.captures);
  if (!relaxed_ && mode != CU_STREAM_CAPTURE_MODE_RELAXED && below(4) == 0) return refusal(mode);
  CUstream const s = own()[0];
  block owned;  // by the graph, which frees it itself or leaves that to cuMemFree
  owned.bytes = 4 * (1 + below(16384));
  owned.stamp = next_stamp();
  owned.of_graph = true;
  CHECK(cuStreamBeginCapture(s, mode));
  unsigned const with_memory = crowded ? 0 : below(3);
  if (with_memory != 0) {
    CHECK(cuMemAllocAsync(&owned.address, owned.bytes, s));
    CHECK(here().work.stamp(owned, s, 0));
    CHECK(here().work.look(owned, s, below(20'000)));
  }
  if (with_memory == 1) CHECK(cuMemFreeAsync(owned.address, s));
  for (unsigned i = below(3); i > 0; --i) join(s, below(2) == 0);
  work_beside(mode, s);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(s, &graph));
  if (graph == nullptr) return;
  replay(graph, s, with_memory == 2 ? owned.address : 0);
  CHECK(cuGraphDestroy(graph));
}

// Another stream becomes part of the capture, of this place or of a primary context anywhere, used by this
// thread or by another one; it has memory of its own in the graph, comes back, and is destroyed before the
// capture ends, or after.
void worker::join(CUstream origin, bool from_thread) {
  std::size_t const back = now_;
  std::size_t to = below(static_cast<unsigned>(all_.places.size()));
  if (!all_.places[to].primary || !all_.places[back].primary) to = back;
  CUevent fork = nullptr, joined = nullptr;
  CHECK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(fork, origin));
  unsigned const destroyed = below(2);
  auto const part = [&] {
    CHECK(cuCtxSetCurrent(all_.places[to].context));
    CUstream other = nullptr;
    CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitEvent(other, fork, 0));
    block inside;
    inside.bytes = 4 * (1 + below(4096));
    inside.stamp = next_stamp();
    inside.of_graph = true;
    if (!crowded) {
      CHECK(cuMemAllocAsync(&inside.address, inside.bytes, other));
      CHECK(all_.places[to].work.stamp(inside, other, 0));
      CHECK(all_.places[to].work.look(inside, other, below(20'000)));
      CHECK(cuMemFreeAsync(inside.address, other));
    }
    CHECK(cuEventRecord(joined, other));
    if (destroyed == 1) CHECK(cuStreamDestroy(other));
    return other;
  };
  CUstream other = nullptr;
  if (from_thread) {
    std::thread([&] { other = part(); }).join();
  } else {
    other = part();
  }
  go(back);
  CHECK(cuStreamWaitEvent(origin, joined, 0));
  if (destroyed == 0) CHECK(cuStreamDestroy(other));
  CHECK(cuEventDestroy(fork));
  CHECK(cuEventDestroy(joined));
}

// What the driver refuses while this thread captures is refused, and the capture is lost (measured: driver
// 580). In global mode the same is true of other threads; in thread-local mode they may.
void worker::refusal(CUstreamCaptureMode mode) {
  CUstream const s = own()[0];
  bool const other = below(3) == 0;
  CUresult const wanted = other && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                              ? CUDA_SUCCESS
                              : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CHECK(cuStreamBeginCapture(s, mode));
  CUresult code = CUDA_ERROR_UNKNOWN;
  if (other) {
    std::thread([&] {
      CHECK(cuCtxSetCurrent(here().context));
      code = refused_call();
    }).join();
  } else {
    code = refused_call();
  }
  if (wanted == CUDA_SUCCESS) {
    got(code, unsafe_call_);
  } else {
    check(code, unsafe_call_, wanted);
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamIsCapturing(s, &status));
  bool const lost = wanted != CUDA_SUCCESS;
  if (status != (lost ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE)) {
    fault("after an unsafe call the capture is in state %u", static_cast<unsigned>(status));
  }
  CUgraph graph = nullptr;
  check(cuStreamEndCapture(s, &graph), "the end of a capture",
        lost ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
  if (graph != nullptr) CHECK(cuGraphDestroy(graph));
}

// One that takes or gives memory; where it is served after all, its memory goes back.
CUresult worker::refused_call() {
  CUdeviceptr address = 0;
  void* host = nullptr;
  std::size_t pitch = 0;
  std::size_t const bytes = some_size();
  CUstream const on = own()[1];
  CUresult code = CUDA_ERROR_UNKNOWN;
  switch (below(6)) {
    case 0:
      unsafe_call_ = "cuMemAlloc beside a capture";
      code = cuMemAlloc(&address, bytes);
      break;
    case 1:
      unsafe_call_ = "cuMemAllocManaged beside a capture";
      code = cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL);
      break;
    case 2:
      unsafe_call_ = "cuMemHostAlloc beside a capture";
      code = cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE);
      break;
    case 3:
      unsafe_call_ = "cuMemAllocPitch beside a capture";
      code = cuMemAllocPitch(&address, &pitch, bytes, 1, 4);
      // A limit of the chain holds for it, and no fallback serves it (obtain); no capture minds that.
      if (code == CUDA_ERROR_OUT_OF_MEMORY) return CUDA_SUCCESS;
      break;
    case 4:
      unsafe_call_ = "cuMemAllocAsync beside a capture";
      code = cuMemAllocAsync(&address, bytes, on);
      break;
    default: {
      std::optional<block> b = here().take(random_);
      if (!b) return refused_call();
      unsafe_call_ = "a free beside a capture";
      bool const async = b->is_ordered() || (!b->on_host() && b->kind != memory::managed && below(2) == 0);
      for (CUevent const e : b->uses) {
        if (async) CHECK(cuStreamWaitEvent(on, e, 0));
      }
      device_work::gives(*b, async ? on : nullptr);
      code = b->on_host() ? cuMemFreeHost(reinterpret_cast<void*>(b->address))
             : async      ? cuMemFreeAsync(b->address, on)
                          : cuMemFree(b->address);
      if (code == CUDA_SUCCESS) {
        for (CUevent const e : b->uses) CHECK(cuEventDestroy(e));
        return code;
      }
      device_work::gave_not(*b);
      here().keep(std::move(*b));
      return code;
    }
  }
  if (code != CUDA_SUCCESS) return code;
  if (host != nullptr) return cuMemFreeHost(host);
  return cuMemFree(address);
}

// Anything, in a thread that is exchanged to relaxed.
void worker::work_beside(CUstreamCaptureMode mode, CUstream captured) {
  CUstream const other = own()[1];
  bool const exchange = !relaxed_ && mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  CUstreamCaptureMode exchanged = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (exchange) CHECK(cuThreadExchangeStreamCaptureMode(&exchanged));
  for (unsigned i = below(6); i > 0; --i) {
    block b;
    b.kind = below(4) == 0 ? memory::ordered : memory::plain;
    b.bytes = some_size();
    if (!obtain(b, other)) continue;
    touch(b, other, true);
    touch(b, other, false);
    bool const async = b.kind == memory::ordered || below(4) == 0;
    device_work::gives(b, async ? other : nullptr);
    CHECK(async ? cuMemFreeAsync(b.address, other) : cuMemFree(b.address));
    for (CUevent const e : b.uses) CHECK(cuEventDestroy(e));
  }
  if (exchange) CHECK(cuThreadExchangeStreamCaptureMode(&exchanged));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamIsCapturing(captured, &status));
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) fault("a capture was invalidated");
}

void worker::replay(CUgraph graph, CUstream on, CUdeviceptr owned) {
  CUgraphExec ready = nullptr;
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (unsigned i = 1 + below(3); i > 0; --i) {
    CHECK(cuGraphLaunch(ready, on));
    if (owned == 0) continue;
    bool const async = below(2) == 0;
    if (!async) CHECK(cuStreamSynchronize(on));
    CHECK(async ? cuMemFreeAsync(owned, on) : cuMemFree(owned));
  }
  CHECK(cuStreamSynchronize(on));
  CHECK(cuGraphExecDestroy(ready));
}

}  // namespace random_program
