// Requests beside a stream whose work waits for this very thread: none may wait for it without end. Argument:
// `refused`: requests for more than the device has, nothing freed; `served`: a request that fits beside
// memory freed behind that work; `freed`: the same for more than the device has, which natively waits for
// nothing and may take a minute here. Prints each call's code and whether it came in time. Not on the
// simulated CUDA, whose host functions run where somebody waits.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;
using namespace std::chrono_literals;

constexpr std::size_t block_bytes = 64u << 20;

void CUDART_CB wait_for_release(void* released) {
  auto const& flag = *static_cast<std::atomic<bool> const*>(released);
  while (!flag.load(std::memory_order_acquire)) std::this_thread::sleep_for(1ms);
}

void timed(char const* what, std::size_t bytes, cudaError_t wanted, std::chrono::seconds most) {
  void* block = nullptr;
  auto const begin = std::chrono::steady_clock::now();
  cudaError_t const code = cudaMalloc(&block, bytes);
  bool const in_time = std::chrono::steady_clock::now() - begin < most;
  std::printf("%s: %d, %s\n", what, static_cast<int>(code), in_time ? "in time" : "late");
  REQUIRE_CODE(code, wanted);
  if (code != cudaSuccess) cudaGetLastError();
}

}  // namespace

int main(int argc, char** argv) {
  char const* const mode = argc > 1 ? argv[1] : "refused";
  std::atomic<bool> released{false};
  std::size_t free_bytes = 0, total = 0;
  cudaStream_t stream = nullptr;
  void* behind = nullptr;
  void* kept = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaMalloc(&kept, 4096));
  REQUIRE(cudaMemGetInfo(&free_bytes, &total));
  REQUIRE(cudaMallocAsync(&behind, block_bytes, stream));
  REQUIRE(cudaLaunchHostFunc(stream, wait_for_release, &released));
  if (std::strcmp(mode, "refused") != 0) REQUIRE(cudaFreeAsync(behind, stream));
  if (std::strcmp(mode, "served") == 0) {
    timed("what fits", block_bytes, cudaSuccess, 5s);
  } else {
    timed("too much", total, cudaErrorMemoryAllocation, std::strcmp(mode, "freed") == 0 ? 90s : 5s);
    timed("too much again", total, cudaErrorMemoryAllocation, 5s);
    timed("what fits", block_bytes, cudaSuccess, 5s);
  }
  released.store(true, std::memory_order_release);
  REQUIRE(cudaStreamSynchronize(stream));
  timed("afterwards", block_bytes, cudaSuccess, 5s);
  std::puts("done");
}
