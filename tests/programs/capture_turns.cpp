// Two threads that take turns at one stream's captures, in all modes: whoever finds it captures ends that,
// which fails where the other thread began it or it was lost, whoever finds it does not begins the next one,
// often before the call that ended the last one has returned. A capture in global mode that goes on after a
// cudaMalloc of the thread that began it has to have refused that. Then one thread allocates and frees, whose
// memory has to serve again: no capture is left. Run by the integration tests, not on a GPU: there the driver
// itself crashes (580.159, an H100, each of 12 plain runs), also where all captures are relaxed.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "tests/programs/support.hpp"

namespace {

struct turns {
  cudaStream_t stream;
  int rounds;
  std::vector<void*> taken;    // small blocks, which need no call of the driver
  std::atomic<int> begins{0};  // counted before the call
};

cudaStreamCaptureStatus state_of(cudaStream_t stream) {
  cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream, &now));
  return now;
}

// The capture at the end is the one that this thread began: the other thread can end that, and has begun none
// since `before` the begin; one that it was in then was refused.
void expect_refusal(turns& mine, turns const& others, int before) {
  void* block = nullptr;
  if (cudaMalloc(&block, 256) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  mine.taken.push_back(block);
  if (state_of(mine.stream) != cudaStreamCaptureStatusActive || others.begins != before) return;
  std::fprintf(stderr, "a capture in global mode goes on, and a cudaMalloc beside it was served\n");
  std::_Exit(4);
}

void take_turns(turns& mine, turns const& others) {
  constexpr cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeGlobal,
                                             cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeThreadLocal};
  for (int i = 0; i < mine.rounds; ++i) {
    cudaGraph_t graph = nullptr;
    cudaError_t code;
    // The other thread may be faster.
    if (state_of(mine.stream) == cudaStreamCaptureStatusNone) {
      const cudaStreamCaptureMode mode = modes[mine.begins++ % 4];
      const int before = others.begins;
      code = cudaStreamBeginCapture(mine.stream, mode);
      if (code == cudaSuccess && mode == cudaStreamCaptureModeGlobal) expect_refusal(mine, others, before);
    } else {
      code = cudaStreamEndCapture(mine.stream, &graph);
    }
    if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
    if (graph != nullptr) REQUIRE(cudaGraphDestroy(graph));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100000;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  turns one{stream, rounds, {}}, two{stream, rounds, {}};
  std::thread other(take_turns, std::ref(two), std::cref(one));
  take_turns(one, two);
  other.join();
  cudaGraph_t graph = nullptr;
  if (state_of(stream) != cudaStreamCaptureStatusNone && cudaStreamEndCapture(stream, &graph) != cudaSuccess)
    static_cast<void>(cudaGetLastError());
  REQUIRE_CODE(state_of(stream), cudaStreamCaptureStatusNone);
  for (const turns* each : {&one, &two})
    for (void* block : each->taken) REQUIRE(cudaFree(block));
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
