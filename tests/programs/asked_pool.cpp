// The first question about a device's default pool while threads allocate from it: what it says once they
// have ended is what they hold, whatever the moment of the question. One question for each device, as the
// second one is no first; with so many devices as there are, each is a try. Programs with their own view of
// cudaMallocAsync, such as PyTorch's backend, ask so. Run plain and preloaded by the integration and GPU
// tests.
#include <cuda.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr int most_threads = 4, blocks = 200;

std::uint64_t ask(CUmemoryPool pool) {
  cuuint64_t used = 0;
  REQUIRE(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  return used;
}

// Every other block is plain, which is none of the pool's.
void allocate(CUcontext context, std::uint64_t seed, std::vector<CUdeviceptr>& held,
              std::atomic<std::uint64_t>& sum, std::atomic<int>& begun) {
  sequence random(seed);
  CUstream stream = nullptr;
  REQUIRE(cuCtxSetCurrent(context));
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < blocks; ++i) {
    const std::size_t bytes = 512 * (1 + random.next(64));
    CUdeviceptr block = 0;
    if (i % 2 == 0) {
      REQUIRE(cuMemAllocAsync(&block, bytes, stream));
      sum += bytes;
    } else {
      REQUIRE(cuMemAlloc(&block, bytes));
    }
    held.push_back(block);
    ++begun;
  }
  REQUIRE(cuStreamSynchronize(stream));
  REQUIRE(cuStreamDestroy(stream));
}

bool asks_meanwhile(CUdevice device) {
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
  REQUIRE(cuCtxSetCurrent(context));
  REQUIRE(cuDeviceGetDefaultMemPool(&pool, device));
  std::vector<CUdeviceptr> held[most_threads];
  std::atomic<std::uint64_t> sum{0};
  std::atomic<int> begun{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < most_threads; ++i)
      threads.emplace_back([&, i] {
        allocate(context, static_cast<std::uint64_t>(device * most_threads + i), held[i], sum, begun);
      });
    while (begun < 20 * (1 + device % 8)) std::this_thread::yield();
    ask(pool);
  }
  const bool right = ask(pool) == sum;
  for (const auto& of_thread : held)
    for (const CUdeviceptr block : of_thread) REQUIRE(cuMemFree(block));
  REQUIRE(cuDevicePrimaryCtxRelease(device));
  return right;
}

}  // namespace

int main() {
  int devices = 0, right = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGetCount(&devices));
  for (CUdevice device = 0; device < devices; ++device) right += asks_meanwhile(device);
  std::printf("what is used is what is held, on all devices: %d\n", right == devices);
  counts.print();
}
