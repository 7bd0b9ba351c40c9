// What the driver does with plain memory that is freed in the order of a stream (cuMemFreeAsync of memory of
// cuMemAlloc): it waits for that stream alone, so that memory goes back beside kernels that run, and beside
// those that wait for the host; launches of other threads go on; it is the device's again once that stream is
// synchronised. gpumem gives memory back so. Prints yes and no only, and asks NVML what the device has.
#include <cuda.h>

#include <algorithm>

#include "tests/bench/workloads/device_use.hpp"
#include "tests/gpu/beside_a_kernel.cuh"

namespace {

using namespace programs;

constexpr std::size_t bytes = std::size_t{1} << 30;
constexpr long long mib = 1 << 20;

// Of the whole device, in MiB; the driver's own answer would be gpumem's.
long long in_use() {
  static const bench::device_use device;
  return static_cast<long long>(device.bytes()) / mib;
}

CUdeviceptr make(std::size_t size = bytes) {
  CUdeviceptr block = 0;
  REQUIRE(cuMemAlloc(&block, size));
  REQUIRE(cuMemsetD8(block, 1, size));
  REQUIRE(cudaDeviceSynchronize());
  return block;
}

void is_back(const char* what, long long before) {
  std::printf("%s: the memory is back: %s\n", what,
              before - in_use() >= static_cast<long long>(bytes) / mib ? "yes" : "no");
}

// Whether the calls for host and managed memory wait for a kernel as well.
void other_kinds(spinning& at) {
  void* host = nullptr;
  CUdeviceptr managed = 0;
  at.beside_a_kernel("cuMemHostAlloc", [&] { REQUIRE(cuMemHostAlloc(&host, bytes / 16, 0)); });
  at.beside_a_kernel("cuMemFreeHost", [&] { REQUIRE(cuMemFreeHost(host)); });
  at.beside_a_kernel("cuMemAllocManaged",
                     [&] { REQUIRE(cuMemAllocManaged(&managed, bytes / 16, CU_MEM_ATTACH_GLOBAL)); });
  at.beside_a_kernel("cuMemFree of managed memory", [&] { REQUIRE(cuMemFree(managed)); });
  REQUIRE(cuMemAllocManaged(&managed, bytes / 16, CU_MEM_ATTACH_GLOBAL));
  at.beside_a_kernel("cuMemFreeAsync of managed memory", [&] {
    const int code = cuMemFreeAsync(managed, at.own);
    std::printf("cuMemFreeAsync of managed memory: %d, %d\n", code,
                static_cast<int>(cuStreamSynchronize(at.own)));
    if (code != CUDA_SUCCESS) REQUIRE(cuMemFree(managed));
  });
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  spinning at;
  const char* const orders[] = {"first", "second", "third"};
  for (const char* const order : orders) {
    const CUdeviceptr block = make();
    const long long before = in_use();
    at.beside_a_kernel(order, [&] {
      const clock_type::time_point begin = clock_type::now();
      REQUIRE(cuMemFreeAsync(block, at.own));
      std::printf("time: %s, free %.3f ms\n", order, ms_since(begin));
      REQUIRE(cuStreamSynchronize(at.own));
      is_back(order, before);
    });
  }
  const CUdeviceptr block = make();
  at.beside_a_kernel("launches of another thread", [&] {
    std::atomic<bool> freed{false};
    std::thread other([&] {
      int launched = 0;
      double longest = 0;
      while (!freed || launched < 100) {
        const clock_type::time_point begin = clock_type::now();
        nothing<<<1, 1, 0, at.own>>>();
        longest = std::max(longest, ms_since(begin));
        ++launched;
      }
      std::printf("time: launches of another thread, longest %.2f ms\n", longest);
    });
    REQUIRE(cuMemFreeAsync(block, at.own));
    REQUIRE(cuStreamSynchronize(at.own));
    freed = true;
    other.join();
  });
  CUmemoryPool pool = nullptr;
  cuuint64_t keep = ~cuuint64_t{0};
  REQUIRE(cuDeviceGetDefaultMemPool(&pool, 0));
  REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  const CUdeviceptr kept = make();
  const long long before = in_use();
  REQUIRE(cuMemFreeAsync(kept, at.own));
  REQUIRE(cuStreamSynchronize(at.own));
  is_back("with a pool that keeps everything", before);
  const CUdeviceptr captured = make();
  cudaStream_t recorded = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&recorded, cudaStreamNonBlocking));
  CUgraph graph = nullptr;
  REQUIRE(cuStreamBeginCapture(recorded, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode));
  const int code = cuMemFreeAsync(captured, at.own);
  const int synchronised = cuStreamSynchronize(at.own);
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode));
  const int ended = cuStreamEndCapture(recorded, &graph);
  std::printf("beside a capture: %d, %d, its end %d\n", code, synchronised, ended);
  other_kinds(at);
  for (const std::size_t size : {std::size_t{2} << 20, std::size_t{64} << 20, bytes}) {
    for (const bool ordered : {false, true}) {
      CUdeviceptr blocks[8];
      for (CUdeviceptr& each : blocks) each = make(size);
      const clock_type::time_point begin = clock_type::now();
      for (const CUdeviceptr each : blocks) REQUIRE(ordered ? cuMemFreeAsync(each, at.own) : cuMemFree(each));
      if (ordered) REQUIRE(cuStreamSynchronize(at.own));
      std::printf("time: %zu MiB, %s %.3f ms\n", size >> 20, ordered ? "in order" : "at once",
                  ms_since(begin) / 8);
    }
  }
}
