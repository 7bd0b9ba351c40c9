// The primary context of a device, ended and retained by threads that know nothing of each other. Modes:
// `retain`: each retains it, works and releases it, so that whoever is last ends it while another gets it
// anew; `look`: one retains and releases it, as libraries do to look at it, while another makes the first
// allocation of a device; `free`: the same while another allocates and frees; `own`: each thread has contexts
// of its own, one after the other, at addresses that another thread's had a moment ago. What each is given it
// can fill and free. Two threads, or four; the number of rounds is the second argument.
#include <cuda.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

CUdeviceptr take(std::size_t bytes) {
  CUdeviceptr const block = make(bytes);
  REQUIRE(cuMemsetD8(block, 1, bytes));
  return block;
}

void give(CUdeviceptr block) {
  REQUIRE(drop(block));
}

// As long as `work` runs another thread retains and releases the device's primary context.
template <typename Work>
void beside_a_look(CUdevice device, Work work) {
  std::atomic<bool> stop{false};
  std::atomic<int> looks{0};
  std::thread other([&] {
    for (; !stop; ++looks) {
      CUcontext again = nullptr;
      REQUIRE(cuDevicePrimaryCtxRetain(&again, device));
      REQUIRE(cuDevicePrimaryCtxRelease(device));
    }
  });
  while (looks < 3) std::this_thread::yield();
  work();
  stop = true;
  other.join();
}

void retain(CUdevice device, int rounds) {
  std::thread threads[2];
  for (std::thread& each : threads) {
    each = std::thread([device, rounds] {
      for (int i = 0; i < rounds; ++i) {
        CUcontext context = nullptr;
        REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
        REQUIRE(cuCtxSetCurrent(context));
        give(take(1 << 16));
        REQUIRE(cuCtxSetCurrent(nullptr));
        REQUIRE(cuDevicePrimaryCtxRelease(device));
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

void look(int devices) {
  for (CUdevice device = 0; device < devices; ++device) {
    CUcontext context = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    CUdeviceptr blocks[8] = {};
    beside_a_look(device, [&] {
      for (CUdeviceptr& each : blocks) each = take(1 << 16);
    });
    for (const CUdeviceptr each : blocks) give(each);
    for (CUdeviceptr& each : blocks) each = take(1 << 16);
    for (const CUdeviceptr each : blocks) give(each);
    REQUIRE(cuDevicePrimaryCtxRelease(device));
  }
}

void release(CUdevice device, int rounds) {
  CUcontext context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
  REQUIRE(cuCtxSetCurrent(context));
  beside_a_look(device, [&] {
    for (int i = 0; i < rounds; ++i) give(take(1 << 16));
  });
}

// What one context takes along another one may be given at once; whoever frees there has not allocated it.
void own(CUdevice device, int rounds) {
  std::thread threads[4];
  for (std::thread& each : threads) {
    each = std::thread([device, rounds] {
      for (int i = 0; i < rounds; ++i) {
        CUcontext context = nullptr;
        REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
        CUdeviceptr blocks[4] = {};
        for (CUdeviceptr& block : blocks) block = take(1 << 12);
        std::thread([&] {
          REQUIRE(cuCtxSetCurrent(context));
          for (CUdeviceptr block : blocks)
            if (block != blocks[i % 4]) give(block);
        }).join();
        REQUIRE(cuCtxDestroy(context));
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "retain";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1000;
  int devices = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGetCount(&devices));
  if (std::strcmp(mode, "retain") == 0) retain(devices - 1, rounds);
  if (std::strcmp(mode, "look") == 0) look(devices);
  if (std::strcmp(mode, "free") == 0) release(0, rounds);
  if (std::strcmp(mode, "own") == 0) own(0, rounds);
  std::printf("%s: all could be filled and freed\n", mode);
  counts.print();
}
