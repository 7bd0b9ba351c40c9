// Memory that goes back to the device. Prints how much the driver has in use, as the simulated one counts it,
// and how many calls of it a warm loop makes; the test compares with what it wants. Argument:
//   large    blocks of 128 MiB until 90 % of the device are taken, all freed
//   aged     blocks of 8 MiB, all freed; then small ones until memory has gone back, or for 3 s
//   synchronised  the same, with nothing but cudaDeviceSynchronize at the end
//   warm     sizes from 1 MiB to 2 GiB, one after the other, many rounds
//   busy     a large block is freed while a kernel uses it
//   captured as aged, while another stream captures
// One thread; `two_threads` is `synchronised` with a second one that has used CUDA.
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/programs/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t mib = 1u << 20;

unsigned long long in_use() {
  return simulated_control::in_use(0) / mib;
}
unsigned long long driver_calls() {
  return simulated_control::calls("cuMemAlloc_v2") + simulated_control::calls("cuMemFree_v2");
}

void take_and_free(std::size_t block, std::size_t count) {
  std::vector<void*> blocks(count);
  for (void*& each : blocks) REQUIRE(counted_malloc(&each, block));
  std::printf("taken: %llu MiB in use\n", in_use());
  for (void* each : blocks) REQUIRE(counted_free(each));
}

void pair(std::size_t bytes) {
  void* block = nullptr;
  REQUIRE(counted_malloc(&block, bytes));
  REQUIRE(counted_free(block));
}

// Works until less than `enough` MiB are in use, or time is over.
void work(unsigned long long enough, const std::function<void()>& step) {
  const auto end = clock_type::now() + std::chrono::seconds(3);
  while (in_use() > enough && clock_type::now() < end) {
    for (int i = 0; i < 100; ++i) step();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void aged(const std::function<void()>& step) {
  take_and_free(8 * mib, 128);
  REQUIRE(cudaDeviceSynchronize());
  work(256, step);
}

void warm() {
  const auto round = [] {
    for (std::size_t bytes = mib; bytes <= 2048 * mib; bytes *= 2) pair(bytes);
  };
  for (int i = 0; i < 4; ++i) round();
  const auto before = driver_calls();
  const auto end = clock_type::now() + std::chrono::milliseconds(2500);
  while (clock_type::now() < end) round();
  std::printf("warm: %llu calls of the driver\n", driver_calls() - before);
}

void busy() {
  void* block = nullptr;
  REQUIRE(counted_malloc(&block, 128 * mib));
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  simulated_control::clock_manual(true);
  REQUIRE(static_cast<int>(simulated_control::launch(stream, block, 128 * mib, 1'000'000)));
  REQUIRE(counted_free(block));
  std::printf("while its kernel runs: %llu MiB in use\n", in_use());
  simulated_control::clock_manual(false);
  REQUIRE(cudaDeviceSynchronize());
  work(64, [] { pair(4096); });
  REQUIRE(cudaStreamDestroy(stream));
}

void captured() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  take_and_free(8 * mib, 128);
  pair(128 * mib);
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  const auto before = driver_calls();
  const auto end = clock_type::now() + std::chrono::milliseconds(300);
  while (clock_type::now() < end) {  // few enough that they need no growth: nothing freed serves again here
    for (int i = 0; i < 400; ++i) pair(4096);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("beside a capture: %llu calls of the driver\n", driver_calls() - before);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph));
  REQUIRE(cudaGraphDestroy(graph));
  work(256, [] { pair(4096); });
  REQUIRE(cudaStreamDestroy(stream));
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "large";
  const auto is = [mode](const char* name) { return std::strcmp(mode, name) == 0; };
  REQUIRE(cudaSetDevice(0));
  pair(4096);
  if (is("large")) {
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total));
    take_and_free(128 * mib, free / 10 * 9 / (128 * mib));
  }
  if (is("aged")) aged([] { pair(4096); });
  if (is("two_threads")) {
    std::thread other([] {
      pair(4096);
      std::this_thread::sleep_for(std::chrono::seconds(1));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    other.detach();
  }
  if (is("synchronised") || is("two_threads")) aged([] { REQUIRE(cudaDeviceSynchronize()); });
  if (is("warm")) warm();
  if (is("busy")) busy();
  if (is("captured")) captured();
  std::printf("at the end: %llu MiB in use\n", in_use());
  counts.print();
}
