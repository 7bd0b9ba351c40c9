// See worker.hpp. Here: captures in every mode, what this thread and others do beside them, and the graphs.
#include "tests/integration/random/worker.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace random_program {

// The caller sees to it that nobody disturbs a capture of this mode; see world.hpp.
void worker::capture(CUstreamCaptureMode mode) {
  std::shared_lock const lock(all_.captures);
  CUstream const s = own()[0];
  CHECK(cuStreamBeginCapture(s, mode));
  CUdeviceptr owned = 0;  // by the graph, which frees it itself or leaves that to cuMemFree
  unsigned const with_memory = below(3);
  if (with_memory != 0) {
    CHECK(cuMemAllocAsync(&owned, 4096, s));
    CHECK(cuMemsetD8Async(owned, 7, 4096, s));
  }
  if (with_memory == 1) CHECK(cuMemFreeAsync(owned, s));
  work_beside(mode, s);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(s, &graph));
  if (graph == nullptr) return;
  replay(graph, s, with_memory == 2 ? owned : 0);
  CHECK(cuGraphDestroy(graph));
}

// Stream-ordered memory on a stream that does not capture, in every mode; anything in a thread that is
// exchanged to relaxed.
void worker::work_beside(CUstreamCaptureMode mode, CUstream captured) {
  CUstream const other = own()[1];
  block beside;
  beside.kind = memory::ordered;
  beside.bytes = some_size();
  beside.pattern = 9;
  if (obtain(beside, other)) {
    simulated_access const access{beside.address, beside.bytes, 1};
    CHECK(simulatedLaunch(other, &access, 1, below(10'000)));
    simulatedNoteFree(beside.address, other);
    CHECK(cuMemFreeAsync(beside.address, other));
    for (CUevent const e : beside.uses) CHECK(cuEventDestroy(e));
  }
  bool const exchange = !relaxed_ && mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  CUstreamCaptureMode exchanged = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (exchange) CHECK(cuThreadExchangeStreamCaptureMode(&exchanged));
  for (unsigned i = below(6); i > 0; --i) {
    block plain;
    plain.bytes = some_size();
    plain.pattern = 11;
    if (!obtain(plain, nullptr)) continue;
    touch(plain, other, true);
    simulatedNoteFree(plain.address, nullptr);
    CHECK(cuMemFree(plain.address));
    for (CUevent const e : plain.uses) CHECK(cuEventDestroy(e));
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
    if (owned != 0) CHECK(below(2) == 0 ? cuMemFreeAsync(owned, on) : cuMemFree(owned));
  }
  CHECK(cuStreamSynchronize(on));
  CHECK(cuGraphExecDestroy(ready));
}

}  // namespace random_program
