// Captures of one thread in two contexts by turns, on streams that go after each: a new stream often has the
// handle of one that was in the other context. Blocks of many sizes are allocated and freed beside each
// capture, and none may be lost. Run plain and preloaded by the integration and GPU tests. One thread.
#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

int captured(CUstream stream, CUdeviceptr target) {
  CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  REQUIRE(cuThreadExchangeStreamCaptureMode(&relaxed));
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE(cuMemsetD8Async(target, 1, 4096, stream));
  for (std::size_t size = 1; size <= 40; ++size) {
    const CUdeviceptr block = make(size << 20);
    const CUdeviceptr small = make(4096);
    REQUIRE(drop(block));
    REQUIRE(drop(small));
  }
  CUgraph graph = nullptr;
  const int code = cuStreamEndCapture(stream, &graph);
  if (graph != nullptr) REQUIRE(cuGraphDestroy(graph));
  REQUIRE(cuThreadExchangeStreamCaptureMode(&relaxed));
  return code;
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext contexts[2];
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  for (CUcontext& context : contexts) REQUIRE(cuCtxCreate_v2(&context, 0, device));
  int wrong = 0;
  for (int round = 0; round < 40; ++round) {
    REQUIRE(cuCtxSetCurrent(contexts[round % 2]));
    CUstream stream = nullptr;
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr target = make(4096);
    for (int again = 0; again < 2; ++again) wrong += captured(stream, target) != 0;
    REQUIRE(cuStreamDestroy(stream));
    REQUIRE(drop(target));
  }
  for (const CUcontext context : contexts) REQUIRE(cuCtxDestroy(context));
  std::printf("%d captures were lost\n", wrong);
  counts.print();
}
