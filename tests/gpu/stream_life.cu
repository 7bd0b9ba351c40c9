// Streams that come and go: thousands created and destroyed with stream-ordered blocks freed on them, default
// streams of many threads (legacy, or per thread where this file is built so), frees by a thread that a host
// function wakes, and the codes that memory calls inside a host function get. Mode: many COUNT | defaults |
// wake | inside. Threads as the mode says.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/gpu/kernels.cuh"

namespace {

using namespace programs;

void many(int count, gpu::wrong_counter& wrong) {
  void* carried = nullptr;
  cudaEvent_t written;
  REQUIRE(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  for (int index = 0; index < count; ++index) {
    const std::size_t bytes = std::size_t{4096} << (index % 7);
    const auto value = static_cast<std::uint32_t>(index);
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, index % 2 == 0 ? cudaStreamNonBlocking : cudaStreamDefault));
    void* block = nullptr;
    REQUIRE(counted_malloc_async(&block, bytes, stream));
    gpu::launch_fill(block, bytes, value, stream);
    gpu::launch_count(block, bytes, value, 0, wrong.device(), stream);
    if (carried != nullptr) {  // of a stream that is gone
      REQUIRE(cudaStreamWaitEvent(stream, written));
      gpu::launch_count(carried, 4096, value - 1, 0, wrong.device(), stream);
      REQUIRE(counted_free_async(carried, stream));
      carried = nullptr;
    }
    if (index % 16 == 0) {
      REQUIRE(counted_malloc_async(&carried, 4096, stream));
      gpu::launch_fill(carried, 4096, value, stream);
      REQUIRE(cudaEventRecord(written, stream));
    }
    REQUIRE(counted_free_async(block, stream));
    REQUIRE(cudaStreamDestroy(stream));  // its work may still run
  }
  if (carried != nullptr) {
    REQUIRE(cudaEventSynchronize(written));
    REQUIRE(counted_free(carried));
  }
  REQUIRE(cudaEventDestroy(written));
  std::printf("%d streams came and went\n", count);
}

void defaults(gpu::wrong_counter& wrong) {
  std::vector<std::thread> workers;
  for (int own = 0; own < 16; ++own) {
    workers.emplace_back([own, &wrong] {
      const cudaStream_t streams[] = {nullptr, cudaStreamPerThread, cudaStreamLegacy};
      for (int round = 0; round < 300; ++round) {
        const cudaStream_t stream = streams[round % 3];
        const std::size_t bytes = std::size_t{8192} << ((own + round) % 8);
        const auto value = static_cast<std::uint32_t>(own * 1000 + round);
        void* block = nullptr;
        REQUIRE(counted_malloc_async(&block, bytes, stream));
        gpu::launch_fill(block, bytes, value, stream);
        gpu::launch_count(block, bytes, value, round % 50 == 0 ? 50'000 : 0, wrong.device(), stream);
        REQUIRE(counted_free_async(block, stream));
      }
      REQUIRE(cudaStreamSynchronize(cudaStreamPerThread));
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::printf("16 threads on default streams\n");
}

struct wake_up {
  std::mutex mutex;
  std::condition_variable changed;
  bool called = false;
};

void CUDART_CB wake(void* data) {
  auto& to = *static_cast<wake_up*>(data);
  std::lock_guard lock(to.mutex);
  to.called = true;
  to.changed.notify_one();
}

void freed_by_the_woken(gpu::wrong_counter& wrong) {
  cudaStream_t stream;
  cudaStream_t late;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking));
  for (int round = 0; round < 200; ++round) {
    const std::size_t bytes = round % 10 == 0 ? std::size_t{64} << 20 : std::size_t{1} << 20;
    void* block = nullptr;
    wake_up signal;
    REQUIRE(counted_malloc(&block, bytes));
    gpu::launch_fill(block, bytes, 11, stream);
    REQUIRE(cudaStreamSynchronize(stream));
    REQUIRE(cudaLaunchHostFunc(stream, wake, &signal));
    gpu::launch_count(block, bytes, 11, 200'000, wrong.device(),
                      late);  // still reads when the thread is woken
    std::thread([&] {
      std::unique_lock lock(signal.mutex);
      signal.changed.wait(lock, [&] { return signal.called; });
      REQUIRE(counted_free(block));
    }).join();
    void* next = nullptr;
    REQUIRE(counted_malloc(&next, bytes));
    gpu::launch_fill(next, bytes, 0xeeeeeeeeu, stream);
    REQUIRE(counted_free(next));
  }
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaStreamDestroy(stream));
  REQUIRE(cudaStreamDestroy(late));
  std::printf("200 blocks freed by a thread that a host function woke\n");
}

struct inside_codes {
  void* small = nullptr;
  void* large = nullptr;
  int codes[5] = {};
};

// CUDA forbids memory calls here; what matters is that the answer is the same and nothing hangs.
void CUDART_CB call_inside(void* data) {
  auto& to = *static_cast<inside_codes*>(data);
  void* block = nullptr;
  to.codes[0] = cudaFree(to.small);
  to.codes[1] = cudaFree(to.large);
  to.codes[2] = cudaMalloc(&block, 4096);
  to.codes[3] = cudaMalloc(&block, 96 << 20);
  to.codes[4] = cudaFree(nullptr);
}

void inside() {
  inside_codes seen;
  REQUIRE(cudaMalloc(&seen.small, 4096));
  REQUIRE(cudaMalloc(&seen.large, 64 << 20));
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaLaunchHostFunc(stream, call_inside, &seen));
  REQUIRE(cudaDeviceSynchronize());
  const char* const names[] = {"cudaFree(4 KiB)", "cudaFree(64 MiB)", "cudaMalloc(4 KiB)",
                               "cudaMalloc(96 MiB)", "cudaFree(null)"};
  for (int i = 0; i < 5; ++i) std::printf("%s in a host function: %d\n", names[i], seen.codes[i]);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "many";
  if (std::strcmp(mode, "inside") == 0) {
    inside();
    return 0;
  }
  gpu::wrong_counter wrong;
  if (std::strcmp(mode, "many") == 0) many(argc > 2 ? std::atoi(argv[2]) : 10000, wrong);
  if (std::strcmp(mode, "defaults") == 0) defaults(wrong);
  if (std::strcmp(mode, "wake") == 0) freed_by_the_woken(wrong);
  const unsigned long long all = wrong.read();
  wrong.release();
  std::printf("%llu wrong words\n", all);
  counts.print();
  return all == 0 ? 0 : 1;
}
