// Eight threads that allocate, fill, check and free at once, each on its own stream, half by cudaMalloc and
// half by cudaMallocAsync; every block that is left over is freed by another thread than its own. Run plain
// and preloaded by the integration and GPU tests; arguments: threads, rounds.
#include <mutex>
#include <thread>

#include "tests/programs/support.hpp"

int main(int argc, char** argv) {
  using namespace programs;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 8;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 60;
  std::vector<std::uint64_t> result(static_cast<std::size_t>(threads));
  std::mutex guard;
  std::vector<void*> left_over;

  std::vector<std::thread> workers;
  for (int own = 0; own < threads; ++own) {
    workers.emplace_back([&, own] {
      cudaStream_t stream;
      REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      sequence random(static_cast<std::uint64_t>(own) + 100);
      checksum sum;
      std::vector<unsigned char> host;
      for (int round = 0; round < rounds; ++round) {
        const std::size_t bytes = 1 + random.next(std::uint64_t{1} << (8 + random.next(11)));
        const auto value = static_cast<unsigned char>(own * 31 + round);
        const bool ordered = own % 2 == 1;
        void* block = nullptr;
        REQUIRE(ordered ? counted_malloc_async(&block, bytes, stream) : counted_malloc(&block, bytes));
        REQUIRE(cudaMemsetAsync(block, value, bytes, stream));
        host.resize(bytes);
        REQUIRE(cudaMemcpyAsync(host.data(), block, bytes, cudaMemcpyDeviceToHost, stream));
        REQUIRE(cudaStreamSynchronize(stream));
        REQUIRE_ALL(host.data(), bytes, value);
        sum.add(host.data(), bytes);
        if (round % 10 == 9) {
          std::lock_guard lock(guard);
          left_over.push_back(block);
        } else {
          REQUIRE(ordered ? counted_free_async(block, stream) : counted_free(block));
        }
      }
      REQUIRE(cudaStreamDestroy(stream));
      result[static_cast<std::size_t>(own)] = sum.value();
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (void* block : left_over) REQUIRE(counted_free(block));
  for (int own = 0; own < threads; ++own)
    std::printf("thread %d checksum %016llx\n", own,
                (unsigned long long)result[static_cast<std::size_t>(own)]);
  counts.print();
}
