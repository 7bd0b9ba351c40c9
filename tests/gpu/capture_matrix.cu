// Memory calls while a stream captures: three capture modes, each with a request that a pool can serve at
// once, one for which it has to grow, and a free, made by the capturing thread and by another; every graph is
// replayed. Then memory that the graph owns, freed by cudaFree and cudaFreeAsync or by the next launch; and
// captures that race with another thread's frees. A thread exchanges its mode only where the runtime demands
// it. Argument: replays. Two threads at most.
#include <atomic>
#include <thread>

#include "tests/gpu/kernels.cuh"

namespace {

using namespace programs;

constexpr std::size_t known_size = 3 << 20;
constexpr const char* actions[] = {"hit", "growth", "free"};

struct mode_case {
  const char* name;
  cudaStreamCaptureMode mode;
};
constexpr mode_case modes[] = {{"global", cudaStreamCaptureModeGlobal},
                               {"thread-local", cudaStreamCaptureModeThreadLocal},
                               {"relaxed", cudaStreamCaptureModeRelaxed}};

template <typename Call>
void with_exchange(bool exchange, Call call) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (exchange) REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode));
  call();
  if (exchange) REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode));
}

cudaGraphExec_t end_capture(cudaStream_t stream, unsigned long long flags = 0) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph));
  REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, flags));
  REQUIRE(cudaGraphDestroy(graph));
  return executable;
}

void disturb(cudaStream_t other, std::uint32_t value) {
  void* block = nullptr;
  REQUIRE(counted_malloc(&block, known_size));
  gpu::launch_fill(block, known_size, value, other);
  REQUIRE(counted_free(block));
}

void run(const mode_case& how, int action, bool other_thread, int replays, cudaStream_t stream,
         cudaStream_t other, gpu::wrong_counter& wrong) {
  static std::size_t next_size = 48 << 20;  // never asked for before, so that no idle block fits exactly
  const std::size_t bytes = action == 1 ? next_size += 2 << 20 : known_size;
  void* block = nullptr;
  void* given_up = nullptr;
  REQUIRE(counted_malloc(&given_up, known_size));
  gpu::launch_fill(given_up, known_size, 5, other);
  gpu::launch_count(given_up, known_size, 5, 100'000, wrong.device(), other);
  if (action == 2) REQUIRE(counted_malloc(&block, bytes));
  REQUIRE(cudaStreamBeginCapture(stream, how.mode));
  const bool exchange = how.mode == cudaStreamCaptureModeGlobal ||
                        (how.mode == cudaStreamCaptureModeThreadLocal && !other_thread);
  auto act = [&] {
    with_exchange(exchange,
                  [&] { REQUIRE(action == 2 ? counted_free(given_up) : counted_malloc(&block, bytes)); });
  };
  if (other_thread) {
    std::thread(act).join();
  } else {
    act();
  }
  gpu::launch_fill(block, bytes, 7, stream);
  gpu::launch_count(block, bytes, 7, 0, wrong.device(), stream);
  const cudaGraphExec_t executable = end_capture(stream);
  for (int replay = 0; replay < replays; ++replay) {
    REQUIRE(cudaGraphLaunch(executable, stream));
    if (replay % 100 == 0) disturb(other, 0xeeeeeeeeu);
  }
  REQUIRE(counted_free(block));  // the graph may still run
  disturb(other, 0xddddddddu);
  if (action != 2) REQUIRE(counted_free(given_up));
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaGraphExecDestroy(executable));
}

void graph_owned(int replays, cudaStream_t stream, gpu::wrong_counter& wrong) {
  for (const bool by_launch : {false, true}) {
    void* owned = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    REQUIRE(counted_malloc_async(&owned, known_size, stream));
    gpu::launch_fill(owned, known_size, 9, stream);
    const cudaGraphExec_t executable =
        end_capture(stream, by_launch ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0);
    for (int replay = 0; replay < replays; ++replay) {
      REQUIRE(cudaGraphLaunch(executable, stream));
      gpu::launch_count(owned, known_size, 9, 0, wrong.device(), stream);
      if (by_launch) continue;
      REQUIRE(replay % 2 == 0 ? counted_free_async(owned, stream) : counted_free(owned));
    }
    REQUIRE(cudaStreamSynchronize(stream));
    if (by_launch) REQUIRE(counted_free(owned));
    REQUIRE(cudaGraphExecDestroy(executable));
  }
  std::printf("graph-owned memory: %d replays each way\n", replays);
}

void race(int rounds, cudaStream_t stream, cudaStream_t other, gpu::wrong_counter& wrong) {
  std::atomic<bool> stop{false};
  std::thread churn([&] {
    with_exchange(true, [&] {
      void* blocks[40];  // enough frees in a row to close an epoch
      do {
        for (void*& block : blocks) REQUIRE(counted_malloc(&block, 256 << 10));
        for (void* block : blocks) {
          gpu::launch_fill(block, 256 << 10, 3, other);
          REQUIRE(counted_free(block));
        }
      } while (!stop);
    });
  });
  void* block = nullptr;
  REQUIRE(counted_malloc(&block, known_size));
  for (int round = 0; round < rounds; ++round) {
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    gpu::launch_fill(block, known_size, static_cast<std::uint32_t>(round), stream);
    gpu::launch_count(block, known_size, static_cast<std::uint32_t>(round), 0, wrong.device(), stream);
    const cudaGraphExec_t executable = end_capture(stream);
    REQUIRE(cudaGraphLaunch(executable, stream));
    REQUIRE(cudaGraphExecDestroy(executable));
  }
  stop = true;
  churn.join();
  REQUIRE(counted_free(block));
  std::printf("%d captures beside another thread's frees\n", rounds);
}

}  // namespace

int main(int argc, char** argv) {
  const int replays = argc > 1 ? std::atoi(argv[1]) : 1000;
  cudaStream_t stream;
  cudaStream_t other;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  gpu::wrong_counter wrong;
  disturb(other, 1);
  REQUIRE(cudaDeviceSynchronize());
  for (const mode_case& how : modes) {
    for (int action = 0; action < 3; ++action) {
      for (const bool other_thread : {false, true}) {
        run(how, action, other_thread, replays, stream, other, wrong);
        std::printf("%s, %s, %s thread: %d replays\n", how.name, actions[action],
                    other_thread ? "other" : "same", replays);
      }
    }
  }
  graph_owned(replays, stream, wrong);
  race(replays / 4 + 1, stream, other, wrong);
  const unsigned long long all = wrong.read();
  wrong.release();
  REQUIRE(cudaStreamDestroy(stream));
  REQUIRE(cudaStreamDestroy(other));
  std::printf("%llu wrong words\n", all);
  std::fflush(stdout);
  return all == 0 ? 0 : 1;
}
