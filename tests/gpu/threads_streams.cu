// Threads that each allocate, fill, check and free on a stream of their own, with kernels that verify every
// word on the device; then the rate of pairs of all threads together, with no GPU work. Arguments: threads,
// rounds.
#include <chrono>
#include <thread>

#include "tests/gpu/kernels.cuh"

namespace {

using namespace programs;

template <typename body>
void in_threads(int threads, body run) {
  std::vector<std::thread> workers;
  for (int own = 0; own < threads; ++own) workers.emplace_back([run, own] { run(own); });
  for (std::thread& worker : workers) worker.join();
}

void verified_rounds(int own, int rounds, gpu::wrong_counter& wrong) {
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  sequence random(static_cast<std::uint64_t>(own) + 5);
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = 4 * (1 + random.next(1 << 18));
    const auto value = static_cast<std::uint32_t>(own * 100003 + round);
    const bool ordered = random.next(2) == 1;
    void* block = nullptr;
    REQUIRE(ordered ? counted_malloc_async(&block, bytes, stream) : counted_malloc(&block, bytes));
    gpu::launch_fill(block, bytes, value, stream);
    gpu::launch_count(block, bytes, value, round % 16 == 0 ? 50'000 : 0, wrong.device(), stream);
    // cudaFree and cudaFreeAsync on the own stream both come after this thread's kernels; no synchronisation
    // is needed.
    REQUIRE(ordered ? counted_free_async(block, stream) : counted_free(block));
  }
  REQUIRE(cudaStreamSynchronize(stream));
  REQUIRE(cudaStreamDestroy(stream));
}

void rate(int threads, bool ordered, int pairs) {
  const auto begin = std::chrono::steady_clock::now();
  in_threads(threads, [=](int own) {
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < pairs; ++i) {
      const std::size_t bytes = 1024u << (own + i) % 10;
      void* block = nullptr;
      REQUIRE(ordered ? counted_malloc_async(&block, bytes, stream) : counted_malloc(&block, bytes));
      REQUIRE(ordered ? counted_free_async(block, stream) : counted_free(block));
    }
    REQUIRE(cudaStreamDestroy(stream));
  });
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  std::printf("time: %s, %d threads, a pair of each thread %.0f ns\n",
              ordered ? "cudaMallocAsync" : "cudaMalloc", threads, spent.count() / pairs);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 16;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  gpu::wrong_counter wrong;
  in_threads(threads, [&](int own) { verified_rounds(own, rounds, wrong); });
  const unsigned long long all = wrong.read();
  wrong.release();
  std::printf("%d threads, %d rounds each, %llu wrong words\n", threads, rounds, all);
  for (int many : {1, threads}) {
    rate(many, true, 5000);
    rate(many, false, 500);
  }
  counts.print();
  return all == 0 ? 0 : 1;
}
