// Captures of one thread in two contexts by turns, on streams that go after each: a new stream often has the
// handle of one that was in the other context. Blocks of many sizes are allocated and freed beside each
// capture, and none may be lost. "twice": a block whose free another context's stream ordered, while its own
// context captures, is freed again, and others are made meanwhile. Run plain and preloaded by the integration
// and GPU tests. One thread.
#include <cstring>

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

void freed_twice(const CUcontext (&contexts)[2]) {
  constexpr std::size_t bytes = 6 << 20;
  CUdeviceptr first = 0, next = 0, last = 0;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  REQUIRE(cuCtxSetCurrent(contexts[0]));
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuMemAllocAsync(&first, bytes, CU_STREAM_LEGACY));
  REQUIRE(cuStreamSynchronize(CU_STREAM_LEGACY));
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  REQUIRE(cuThreadExchangeStreamCaptureMode(&relaxed));
  REQUIRE(cuCtxSetCurrent(contexts[1]));
  REQUIRE(cuMemFreeAsync(first, CU_STREAM_LEGACY));
  REQUIRE(cuStreamSynchronize(CU_STREAM_LEGACY));
  std::printf("freed again: %d, by its middle: %d\n", cuMemFree(first), cuMemFree(first + 512));
  REQUIRE(cuMemAllocAsync(&next, bytes, CU_STREAM_LEGACY));
  REQUIRE(cuMemsetD8Async(next, 5, bytes, CU_STREAM_LEGACY));
  REQUIRE(cuCtxSetCurrent(contexts[0]));
  REQUIRE(cuStreamEndCapture(stream, &graph));
  for (int i = 0; i < 4; ++i) {  // what waited goes
    REQUIRE(cuMemAllocAsync(&last, bytes, CU_STREAM_LEGACY));
    REQUIRE(cuMemFreeAsync(last, CU_STREAM_LEGACY));
    REQUIRE(cuCtxSynchronize());
  }
  REQUIRE(cuCtxSetCurrent(contexts[1]));
  unsigned char seen = 0;
  REQUIRE(cuMemcpyDtoH(&seen, next + bytes / 2, 1));
  std::printf("another block has %d, its free says %d\n", seen, cuMemFreeAsync(next, CU_STREAM_LEGACY));
  REQUIRE(cuStreamSynchronize(CU_STREAM_LEGACY));
}

}  // namespace

int main(int count, char** arguments) {
  CUdevice device = 0;
  CUcontext contexts[2];
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  for (CUcontext& context : contexts) REQUIRE(cuCtxCreate_v2(&context, 0, device));
  if (count > 1 && std::strcmp(arguments[1], "twice") == 0) return freed_twice(contexts), 0;
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
