// Allocations and frees beside and inside captures, one case an argument. "matrix": three modes by (a size
// that a pool has at hand, one for which it must grow, a free) by (the capturing thread, another one), each
// exchanged to relaxed where CUDA demands it; the capture must end well. "replay": a graph with memory nodes
// replayed a thousand times. "owned": memory of a graph that only cudaFree or cudaFreeAsync frees, and one
// that frees it at its next launch. "window": threads that allocate and free without pause while captures
// begin and end. Run plain and preloaded by the integration and GPU tests.
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                           cudaStreamCaptureModeRelaxed};
constexpr const char* mode_names[] = {"global", "thread-local", "relaxed"};

class exchanged_to_relaxed {
 public:
  exchanged_to_relaxed() { REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~exchanged_to_relaxed() { REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  exchanged_to_relaxed(const exchanged_to_relaxed&) = delete;
  exchanged_to_relaxed& operator=(const exchanged_to_relaxed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

template <typename Work>
void run_on(bool other_thread, Work work) {
  const auto relaxed = [&] {
    const exchanged_to_relaxed mode;
    work();
  };
  if (other_thread) {
    std::thread(relaxed).join();
  } else {
    relaxed();
  }
}

cudaGraphExec_t end_capture(cudaStream_t stream, unsigned flags = 0) {
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t ready = nullptr;
  REQUIRE(cudaGraphInstantiateWithFlags(&ready, graph, flags));
  REQUIRE(cudaGraphDestroy(graph));
  return ready;
}

void one_cell(cudaStream_t stream, std::size_t mode, int what, bool other_thread) {
  constexpr std::size_t at_hand = 1 << 20;
  static std::size_t growing = 40 << 20;  // larger each time, so that nothing cached can hold it
  void* target = nullptr;
  void* block = nullptr;
  REQUIRE(counted_malloc(&target, at_hand));
  REQUIRE(counted_malloc(&block, at_hand));
  if (what == 0) {
    REQUIRE(counted_free(block));
    REQUIRE(cudaDeviceSynchronize());
  }
  REQUIRE(cudaStreamBeginCapture(stream, modes[mode]));
  REQUIRE(cudaMemsetAsync(target, 1, at_hand, stream));
  run_on(other_thread, [&] {
    if (what == 0) REQUIRE(counted_malloc(&block, at_hand));
    if (what == 1) REQUIRE(counted_free(block));
    if (what == 1) REQUIRE(counted_malloc(&block, growing += 8 << 20));
    if (what == 2) REQUIRE(counted_free(block));
  });
  REQUIRE(cudaMemsetAsync(target, 2, at_hand, stream));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream, &status));
  cudaGraphExec_t ready = end_capture(stream);
  REQUIRE(cudaGraphLaunch(ready, stream));
  REQUIRE(cudaStreamSynchronize(stream));
  checksum sum;
  verify_fill(target, at_hand, 2, sum);
  REQUIRE(cudaGraphExecDestroy(ready));
  if (what != 2) REQUIRE(counted_free(block));
  REQUIRE(counted_free(target));
  static const char* const whats[] = {"hit", "growth", "free"};
  std::printf("%s, %s, %s: status %d\n", mode_names[mode], whats[what],
              other_thread ? "other thread" : "same thread", static_cast<int>(status));
}

void matrix() {
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (std::size_t mode = 0; mode < std::size(modes); ++mode)
    for (int what = 0; what < 3; ++what)
      for (bool other : {false, true}) one_cell(stream, mode, what, other);
}

void replay() {
  constexpr std::size_t bytes = 64 << 10;
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* result = nullptr;
  void* node = nullptr;
  REQUIRE(counted_malloc(&result, bytes));
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  REQUIRE(counted_malloc_async(&node, bytes, stream));
  REQUIRE(cudaMemsetAsync(node, 5, bytes, stream));
  REQUIRE(cudaMemcpyAsync(result, node, bytes, cudaMemcpyDeviceToDevice, stream));
  REQUIRE(counted_free_async(node, stream));
  cudaGraphExec_t ready = end_capture(stream);
  checksum sum;
  for (int i = 0; i < 1000; ++i) {
    void* between = nullptr;
    REQUIRE(counted_malloc_async(&between, bytes, stream));
    REQUIRE(cudaMemsetAsync(between, i, bytes, stream));
    REQUIRE(cudaGraphLaunch(ready, stream));
    REQUIRE(counted_free_async(between, stream));
    if (i % 100 != 0) continue;
    REQUIRE(cudaStreamSynchronize(stream));
    verify_fill(result, bytes, 5, sum);
  }
  REQUIRE(cudaStreamSynchronize(stream));
  verify_fill(result, bytes, 5, sum);
  REQUIRE(cudaGraphExecDestroy(ready));
  REQUIRE(counted_free(result));
  std::printf("1000 replays, checksum %016llx\n", (unsigned long long)sum.value());
}

void owned() {
  constexpr std::size_t bytes = 4096;
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const unsigned flags : {0u, static_cast<unsigned>(cudaGraphInstantiateFlagAutoFreeOnLaunch)}) {
    void* node = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    REQUIRE(counted_malloc_async(&node, bytes, stream));
    REQUIRE(cudaMemsetAsync(node, 9, bytes, stream));
    cudaGraphExec_t ready = end_capture(stream, flags);
    checksum sum;
    for (int i = 0; i < 6; ++i) {
      REQUIRE(cudaGraphLaunch(ready, stream));
      REQUIRE(cudaStreamSynchronize(stream));
      verify_fill(node, bytes, 9, sum);
      if (flags != 0 && i < 5) continue;  // the next launch frees it
      REQUIRE(i % 2 == 0 ? counted_free(node) : counted_free_async(node, stream));
    }
    REQUIRE(cudaStreamSynchronize(stream));
    REQUIRE(cudaGraphExecDestroy(ready));
    std::printf("flags %u: 6 launches, checksum %016llx\n", flags, (unsigned long long)sum.value());
  }
}

// On two devices where there are two: a capture of one must not be met by what is done for the other.
void window() {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  std::atomic<bool> over{false};
  std::atomic<unsigned> turns{0};
  std::vector<std::thread> others;
  for (int t = 0; t < 3; ++t) {
    others.emplace_back([&, t] {
      const exchanged_to_relaxed mode;
      REQUIRE(cudaSetDevice(t % devices));
      std::vector<void*> held(40);
      while (!over) {
        // Small ones but for one: while a capture goes on no freed block may serve again.
        for (void*& block : held) REQUIRE(cudaMalloc(&block, &block == held.data() ? 100'000 : 1000));
        for (void* block : held) REQUIRE(cudaFree(block));
        ++turns;
      }
    });
  }
  REQUIRE(cudaSetDevice(0));
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* target = nullptr;
  {
    const exchanged_to_relaxed mode;
    REQUIRE(cudaMalloc(&target, 4096));
  }
  for (int round = 0; round < 120; ++round) {
    REQUIRE(cudaStreamBeginCapture(stream, modes[round % 3]));
    REQUIRE(cudaMemsetAsync(target, round, 4096, stream));
    // Some captures end at once, some only when the others have allocated and freed within them.
    for (const unsigned seen = turns; round % 4 != 0 && turns - seen < 3;) std::this_thread::yield();
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(stream, &graph));
    REQUIRE(cudaGraphDestroy(graph));
  }
  over = true;
  for (std::thread& other : others) other.join();
  REQUIRE(cudaFree(target));
  std::printf("120 captures, none was disturbed\n");
}

}  // namespace

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "matrix";
  if (std::strcmp(which, "matrix") == 0) matrix();
  if (std::strcmp(which, "replay") == 0) replay();
  if (std::strcmp(which, "owned") == 0) owned();
  if (std::strcmp(which, "window") == 0) window();
  if (std::strcmp(which, "window") != 0) counts.print();
}
