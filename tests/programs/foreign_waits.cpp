// Threads that make their streams wait for events of each other's. `same`: all in one context; `other`: every
// second thread in another context of the device. Each round of a thread makes a stream, records an event on
// it, leaves the event for the next thread, and waits on the stream for the one it finds. Arguments: mode,
// threads, rounds. What it asks: is a driver safe for that? NVIDIA's 580.159 is only in `same`.
#include <cuda.h>

#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

std::mutex mutex;
std::vector<CUevent> left;

CUevent exchange(CUevent mine) {
  std::lock_guard const lock(mutex);
  left.push_back(mine);
  CUevent const found = left.front();
  left.erase(left.begin());
  return found;
}

void rounds(CUcontext context, int count) {
  REQUIRE(cuCtxSetCurrent(context));
  for (int i = 0; i < count; ++i) {
    CUstream stream = nullptr;
    CUevent event = nullptr;
    CUdeviceptr block = 0;
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    REQUIRE(cuMemAllocAsync(&block, 4096, stream));
    REQUIRE(cuMemsetD8Async(block, 1, 4096, stream));
    REQUIRE(cuMemFreeAsync(block, stream));
    REQUIRE(cuEventRecord(event, stream));
    CUevent const found = exchange(event);
    REQUIRE(cuStreamWaitEvent(stream, found, 0));
    REQUIRE(cuEventDestroy(found));
    REQUIRE(cuStreamDestroy(stream));
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool const other = argc > 1 && std::strcmp(argv[1], "other") == 0;
  int const threads = argc > 2 ? std::atoi(argv[2]) : 4, count = argc > 3 ? std::atoi(argv[3]) : 500;
  CUcontext contexts[2] = {};
  REQUIRE(cuInit(0));
  for (CUcontext& each : contexts) REQUIRE(cuCtxCreate(&each, nullptr, 0, 0));
  REQUIRE(cuCtxSetCurrent(contexts[0]));
  for (int i = 0; i < threads; ++i) {
    CUevent event = nullptr;
    REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    left.push_back(event);
  }
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) team.emplace_back(rounds, contexts[other ? i % 2 : 0], count);
  for (std::thread& each : team) each.join();
  for (CUevent const each : left) REQUIRE(cuEventDestroy(each));
  for (CUcontext const each : contexts) REQUIRE(cuCtxDestroy(each));
  std::printf("%d threads, %d rounds each\n", threads, count);
}
