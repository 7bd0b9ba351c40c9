// Two threads that take turns at one stream's captures: whoever finds it captures ends that, whoever finds it
// does not begins the next one, often before the call that ended the last one has returned. Then one thread
// allocates and frees, whose memory has to serve again: no capture is left. Run plain and preloaded by the
// integration and GPU tests.
#include <cstdlib>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

void take_turns(cudaStream_t stream, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
    REQUIRE(cudaStreamIsCapturing(stream, &now));
    cudaGraph_t graph = nullptr;
    // The other thread may have been faster.
    const cudaError_t code = now == cudaStreamCaptureStatusNone
                                 ? cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)
                                 : cudaStreamEndCapture(stream, &graph);
    if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
    if (graph != nullptr) REQUIRE(cudaGraphDestroy(graph));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100000;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::thread other(take_turns, stream, rounds);
  take_turns(stream, rounds);
  other.join();
  cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream, &now));
  cudaGraph_t graph = nullptr;
  if (now != cudaStreamCaptureStatusNone) REQUIRE(cudaStreamEndCapture(stream, &graph));
  if (graph != nullptr) REQUIRE(cudaGraphDestroy(graph));
  for (int i = 0; i < 2000; ++i) {
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, std::size_t{1 + i % 7u} << 20));
    REQUIRE(cudaFree(block));
  }
  REQUIRE(cudaStreamDestroy(stream));
  std::printf("no capture is left\n");
  return 0;
}
