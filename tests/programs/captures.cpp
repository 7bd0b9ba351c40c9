// Allocations before, during and after a stream capture, as a capturing framework does them: in global mode
// under a thread exchanged to relaxed, in relaxed mode plainly, in both from another thread as well, and as
// graph nodes by cudaMallocAsync on the capturing stream. Replays the graph and checks the data. Run plain
// and preloaded by the integration and GPU tests. Two threads at most.
#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void allocate_and_free_elsewhere(bool exchange) {
  std::thread([exchange] {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    if (exchange) REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode));
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, 3 << 20));
    REQUIRE(counted_free(block));
    if (exchange) REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode));
  }).join();
}

void run(const char* name, cudaStreamCaptureMode capture_mode, int replays, checksum& sum) {
  const bool exchange = capture_mode != cudaStreamCaptureModeRelaxed;
  constexpr std::size_t bytes = 256 << 10;
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* before = nullptr;
  void* during = nullptr;
  void* node = nullptr;
  void* freed_during = nullptr;
  REQUIRE(counted_malloc(&before, bytes));
  REQUIRE(counted_malloc(&freed_during, bytes));
  REQUIRE(cudaMemset(before, 0, bytes));
  REQUIRE(cudaDeviceSynchronize());

  REQUIRE(cudaStreamBeginCapture(stream, capture_mode));
  REQUIRE(cudaMemsetAsync(before, 0x11, bytes, stream));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (exchange) REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode));
  REQUIRE(counted_malloc(&during, bytes));
  if (exchange) REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode));
  REQUIRE(cudaMemcpyAsync(during, before, bytes, cudaMemcpyDeviceToDevice, stream));
  REQUIRE(counted_malloc_async(&node, bytes, stream));
  REQUIRE(cudaMemsetAsync(node, 0x22, bytes, stream));
  REQUIRE(cudaMemcpyAsync(before, node, bytes / 2, cudaMemcpyDeviceToDevice, stream));
  REQUIRE(counted_free_async(node, stream));
  allocate_and_free_elsewhere(exchange);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream, &status));
  std::printf("%s: status while capturing %d\n", name, static_cast<int>(status));
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, 0));

  // Frees and new blocks between the replays must stay clear of what the graph uses.
  REQUIRE(counted_free(freed_during));
  std::vector<void*> after;
  for (int replay = 0; replay < replays; ++replay) {
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, bytes));
    REQUIRE(cudaMemsetAsync(block, 0x77, bytes, stream));
    REQUIRE(cudaGraphLaunch(executable, stream));
    after.push_back(block);
    if (after.size() > 3) {
      REQUIRE(counted_free(after.front()));
      after.erase(after.begin());
    }
  }
  REQUIRE(cudaStreamSynchronize(stream));
  verify_fill(during, bytes, 0x11, sum);
  verify_fill(before, bytes / 2, 0x22, sum);
  for (void* block : after) {
    verify_fill(block, bytes, 0x77, sum);
    REQUIRE(counted_free(block));
  }
  REQUIRE(cudaGraphExecDestroy(executable));
  REQUIRE(cudaGraphDestroy(graph));
  REQUIRE(counted_free(before));
  REQUIRE(counted_free(during));
  REQUIRE(cudaStreamDestroy(stream));
  std::printf("%s: %d replays, checksum %016llx\n", name, replays, (unsigned long long)sum.value());
}

}  // namespace

int main(int argc, char** argv) {
  const int replays = argc > 1 ? std::atoi(argv[1]) : 20;
  checksum sum;
  run("global", cudaStreamCaptureModeGlobal, replays, sum);
  run("thread-local", cudaStreamCaptureModeThreadLocal, replays, sum);
  run("relaxed", cudaStreamCaptureModeRelaxed, replays, sum);
  counts.print();
}
