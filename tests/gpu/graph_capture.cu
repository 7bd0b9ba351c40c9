// Kernels in a captured graph that is replayed 1000 times while the program goes on allocating and freeing
// around it: blocks made before, during (relaxed mode, or global mode under an exchanged thread) and after
// the capture, graph memory by cudaMallocAsync, and a block freed while the graph that uses it still runs
// natively waits for it. Argument: replays. One thread.
#include "tests/gpu/kernels.cuh"

namespace {

using namespace programs;

__global__ void add(std::uint32_t* into, const std::uint32_t* from, std::size_t count) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    into[i] += from[i];
}

unsigned long long run(const char* name, cudaStreamCaptureMode capture_mode, int replays) {
  constexpr std::size_t bytes = 4 << 20;
  constexpr std::size_t words = bytes / 4;
  cudaStream_t stream;
  cudaStream_t other;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  gpu::wrong_counter wrong;
  void* sum = nullptr;
  void* one = nullptr;
  REQUIRE(counted_malloc(&sum, bytes));
  gpu::launch_fill(sum, bytes, 0, stream);
  REQUIRE(cudaStreamSynchronize(stream));

  REQUIRE(cudaStreamBeginCapture(stream, capture_mode));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode));
  REQUIRE(counted_malloc(&one, bytes));
  REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode));
  gpu::launch_fill(one, bytes, 1, stream);
  void* node = nullptr;
  REQUIRE(counted_malloc_async(&node, bytes, stream));
  gpu::launch_fill(node, bytes, 2, stream);
  add<<<32, 256, 0, stream>>>(static_cast<std::uint32_t*>(sum), static_cast<std::uint32_t*>(one), words);
  add<<<32, 256, 0, stream>>>(static_cast<std::uint32_t*>(sum), static_cast<std::uint32_t*>(node), words);
  gpu::launch_count(node, bytes, 2, 0, wrong.device(), stream);
  REQUIRE(counted_free_async(node, stream));
  cudaGraph_t graph;
  REQUIRE(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, 0));

  for (int replay = 0; replay < replays; ++replay) {
    REQUIRE(cudaGraphLaunch(executable, stream));
    if (replay % 10 != 0) continue;
    void* block = nullptr;
    if (replay % 20 == 0) {
      REQUIRE(counted_malloc(&block, bytes));
      gpu::launch_fill(block, bytes, 0xeeeeeeeeu, other);
      REQUIRE(counted_free(block));
    } else {
      REQUIRE(counted_malloc_async(&block, bytes, other));
      gpu::launch_fill(block, bytes, 0xddddddddu, other);
      REQUIRE(counted_free_async(block, other));
    }
  }
  // The graph still runs: a free of what it reads must not let the next owner in.
  void* next = nullptr;
  REQUIRE(counted_free(one));
  REQUIRE(counted_malloc(&next, bytes));
  gpu::launch_fill(next, bytes, 0xccccccccu, other);
  gpu::launch_count(sum, bytes, static_cast<std::uint32_t>(replays) * 3, 0, wrong.device(), stream);
  const unsigned long long all = wrong.read();
  REQUIRE(counted_free(next));
  REQUIRE(counted_free(sum));
  wrong.release();
  REQUIRE(cudaGraphExecDestroy(executable));
  REQUIRE(cudaGraphDestroy(graph));
  REQUIRE(cudaStreamDestroy(stream));
  REQUIRE(cudaStreamDestroy(other));
  std::printf("%s: %d replays, %llu wrong words\n", name, replays, all);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const int replays = argc > 1 ? std::atoi(argv[1]) : 1000;
  unsigned long long wrong = run("global", cudaStreamCaptureModeGlobal, replays);
  wrong += run("thread-local", cudaStreamCaptureModeThreadLocal, replays);
  wrong += run("relaxed", cudaStreamCaptureModeRelaxed, replays);
  counts.print();
  return wrong == 0 ? 0 : 1;
}
