// Threads that keep 64 blocks each and replace one at a time, without an end of their own making: what a
// recording of many events is made of. The number of calls that came back is in a file all the while, so
// that it is known after kill -9 too. Run by tests/bench/recording_proofs.py and integration.recording;
// arguments: calls, threads, that file. Prints the longest call.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

struct alignas(64) progress {
  std::atomic<std::uint64_t> calls;
};
constexpr std::size_t most_threads = 64;

progress* map_progress(char const* path) {
  int const file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(progress) * most_threads) != 0) return nullptr;
  void* const made =
      ::mmap(nullptr, sizeof(progress) * most_threads, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return made == MAP_FAILED ? nullptr : static_cast<progress*>(made);
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace programs;
  if (argc != 4) return 2;
  const auto calls = static_cast<std::uint64_t>(std::atof(argv[1]));
  const auto threads = std::min<std::size_t>(most_threads, static_cast<std::size_t>(std::atoi(argv[2])));
  progress* const done = map_progress(argv[3]);
  if (done == nullptr) return 2;
  std::vector<std::uint64_t> longest(threads);
  std::vector<std::thread> workers;
  const std::uint64_t begun = now_ns();
  for (std::size_t own = 0; own < threads; ++own) {
    workers.emplace_back([&, own] {
      constexpr std::size_t kept = 64;
      void* blocks[kept] = {};
      sequence random(own + 1);
      std::uint64_t before = now_ns(), worst = 0;
      const auto called = [&](std::uint64_t number) {
        const std::uint64_t now = now_ns();
        done[own].calls.store(number, std::memory_order_release);
        // The first ones make the pool and the recording.
        if (number > 1000) worst = std::max(worst, now - before);
        before = now;
      };
      for (std::uint64_t i = 0; i < calls / threads;) {
        void*& block = blocks[random.next(kept)];
        if (block != nullptr) {
          REQUIRE(cudaFree(block));
          called(++i);
        }
        REQUIRE(cudaMalloc(&block, 256 + random.next(64) * 1024));
        called(++i);
      }
      longest[own] = worst;
    });
  }
  for (std::thread& worker : workers) worker.join();
  const double seconds = static_cast<double>(now_ns() - begun) * 1e-9;
  std::uint64_t sum = 0;
  for (std::size_t own = 0; own < threads; ++own) sum += done[own].calls.load();
  std::printf("calls %llu seconds %.3f longest_us %.1f\n", static_cast<unsigned long long>(sum), seconds,
              static_cast<double>(*std::max_element(longest.begin(), longest.end())) * 1e-3);
  std::fflush(stdout);
}
