// What a driver does where one thread ends a context while another is in a call that uses it: whether the end
// waits for a kernel, and which calls crash or fail. Mode: waits | wait_event | pushed | query | record |
// stale. Rounds of one mode run in one process, so that a crash is its exit code. Prints the codes that were
// seen and how often; the library is not needed, this asks the driver. Two threads.
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

__global__ void spin(long long ticks) {
  long long const begin = clock64();
  while (clock64() - begin < ticks) {
  }
}

constexpr long long some_ms = 1'800'000;  // ticks, about a millisecond

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void pause_us(int us) {
  std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void waits(CUdevice device) {
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
  spin<<<1, 1>>>(1000);
  REQUIRE(cuCtxSynchronize());
  spin<<<1, 1>>>(300 * some_ms);
  auto const begin = std::chrono::steady_clock::now();
  CUresult const code = cuCtxDestroy(context);
  std::printf("cuCtxDestroy beside a kernel of about 300 ms: code %d after %.0f ms\n", code, ms_since(begin));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
  REQUIRE(cuCtxSetCurrent(context));
  spin<<<1, 1>>>(300 * some_ms);
  auto const again = std::chrono::steady_clock::now();
  CUresult const released = cuDevicePrimaryCtxRelease(device);
  std::printf("last cuDevicePrimaryCtxRelease beside it: code %d after %.0f ms\n", released, ms_since(again));
}

// `use` runs on another thread, again and again, while this one ends the context.
template <typename Use>
void beside(CUdevice device, int rounds, Use use) {
  std::map<int, int> codes;
  for (int round = 0; round < rounds; ++round) {
    CUcontext context = nullptr;
    CUevent event = nullptr;
    REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
    REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    spin<<<1, 1>>>(some_ms / 4);
    REQUIRE(cuCtxRecordEvent(context, event));
    std::atomic<int> stage{0};
    std::map<int, int> seen;
    std::thread other([&] {
      stage = 1;
      while (stage != 2) ++seen[use(context, event)];
    });
    while (stage == 0) std::this_thread::yield();
    pause_us(round % 50 * 10);
    ++seen[1000 + cuCtxDestroy(context)];
    stage = 2;
    other.join();
    for (auto const& [code, count] : seen) codes[code] += count;
  }
  for (auto const& [code, count] : codes)
    std::printf("%s %d: %d times\n", code >= 1000 ? "destroy" : "use", code % 1000, count);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  int const rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  CUdevice device = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  if (std::strcmp(argv[1], "waits") == 0) waits(device);
  if (std::strcmp(argv[1], "wait_event") == 0)
    beside(device, rounds, [](CUcontext, CUevent event) { return cuEventSynchronize(event); });
  if (std::strcmp(argv[1], "query") == 0)
    beside(device, rounds, [](CUcontext, CUevent event) { return cuEventQuery(event); });
  if (std::strcmp(argv[1], "record") == 0)
    beside(device, rounds, [](CUcontext context, CUevent event) { return cuCtxRecordEvent(context, event); });
  if (std::strcmp(argv[1], "pushed") == 0) {
    beside(device, rounds, [](CUcontext context, CUevent) {
      CUresult const code = cuCtxPushCurrent(context);
      if (code != CUDA_SUCCESS) return code;
      pause_us(1);
      CUcontext popped = nullptr;
      return cuCtxPopCurrent(&popped);
    });
  }
  if (std::strcmp(argv[1], "stale") == 0) {
    CUcontext context = nullptr;
    REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
    REQUIRE(cuCtxDestroy(context));
    std::printf("push of an ended context: %d\n", cuCtxPushCurrent(context));
  }
  return 0;
}
