// A real-time thread beside one of the usual priority, on one processor, both with blocks of one stream: the
// first often comes while the second is in the middle of a call. Natively it sleeps then until the other one
// is done. The kernel ends the process when the real-time thread runs for 0.3 s without a sleep. Two
// threads; the number of turns is the first argument. Exit code 77 where there is no right to a real-time
// priority.
#include <sched.h>
#include <sys/resource.h>

#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void take_and_give(cudaStream_t stream) {
  void* block = nullptr;
  REQUIRE(counted_malloc_async(&block, 4096, stream));
  REQUIRE(counted_free_async(block, stream));
  REQUIRE(counted_malloc(&block, 4096));
  REQUIRE(counted_free(block));
}

void stay_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one));
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 2000;
  const rlimit without_sleep{300'000, 300'000};
  REQUIRE(setrlimit(RLIMIT_RTTIME, &without_sleep));
  stay_on_one_processor();
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 100; ++i) take_and_give(stream);
  std::atomic<bool> stop{false};
  std::thread usual([&] {
    while (!stop) take_and_give(stream);
  });
  bool may = false;
  std::thread real_time([&] {
    const sched_param first{.sched_priority = 1};
    may = sched_setscheduler(0, SCHED_FIFO, &first) == 0;
    for (int i = 0; may && i < turns; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      take_and_give(stream);
    }
  });
  real_time.join();
  stop = true;
  usual.join();
  std::puts(may ? "the real-time thread had its turns" : "no right to a real-time priority");
  return may ? 0 : 77;
}
