// Handles that the driver gives out again as soon as it has them: what a thread hears of its own context must
// not depend on another one that had the handle a moment ago, and whose end another thread is still in.
// Modes: `arrays`: of memory that a thread holds the device says that it is not free; `peers`: what a context
// was given access to it can fill; `green`: memory is on the device of its context, whatever had been a green
// context; `pool`: a pool whose end was refused, beside a capture, is what it was; `settings`: memory at an
// address of a context that ended has nothing of what was set there before; `trims`: what a context had idle
// goes back as its own, and not as the next one's; `events`: what a thread did not record is not recorded.
// That green contexts and others share handles no GPU has confirmed. The number of rounds is the second
// argument.
#include <cuda.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

// One thread makes and ends contexts while another works.
template <typename End, typename Work>
void beside_ends(End end, Work work) {
  std::atomic<bool> stop{false};
  std::atomic<int> ends{0};
  std::thread other([&] {
    for (; !stop; ++ends) end();
  });
  while (ends < 3) std::this_thread::yield();
  work();
  stop = true;
  other.join();
}

void make_and_end(CUdevice device) {
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
  REQUIRE(cuCtxDestroy(context));
}

void arrays(int rounds) {
  constexpr std::size_t bytes = 16 << 20;
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = 1024;
  shape.Height = bytes / 4096;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  beside_ends([] { make_and_end(0); },
              [&] {
                for (int i = 0; i < rounds; ++i) {
                  CUcontext context = nullptr;
                  CUarray array = nullptr;
                  std::size_t free = 0, total = 0;
                  REQUIRE(cuCtxCreate(&context, nullptr, 0, 0));
                  REQUIRE(cuArrayCreate(&array, &shape));
                  for (int looks = 0; looks < 3; ++looks) {
                    REQUIRE(cuMemGetInfo(&free, &total));
                    REQUIRE_CODE(free + bytes <= total, true);
                  }
                  REQUIRE(cuArrayDestroy(array));
                  REQUIRE(cuCtxDestroy(context));
                }
              });
}

void peers(int rounds) {
  CUcontext owner = nullptr;
  REQUIRE(cuCtxCreate(&owner, nullptr, 0, 1));
  REQUIRE(cuCtxPopCurrent(nullptr));
  beside_ends([] { make_and_end(0); },
              [&] {
                for (int i = 0; i < rounds; ++i) {
                  CUcontext user = nullptr;
                  REQUIRE(cuCtxCreate(&user, nullptr, 0, 0));
                  REQUIRE(cuCtxEnablePeerAccess(owner, 0));
                  REQUIRE(cuCtxPushCurrent(owner));
                  CUdeviceptr const block = make(1 << 12);
                  REQUIRE(cuCtxPopCurrent(nullptr));
                  for (int fills = 0; fills < 3; ++fills) REQUIRE(cuMemsetD8(block, 1, 1 << 12));
                  REQUIRE(drop(block));
                  REQUIRE(cuCtxDestroy(user));
                }
              });
  REQUIRE(cuCtxDestroy(owner));
}

void green(int rounds) {
  CUcontext primary = nullptr;
  CUdevResource all{};
  CUdevResourceDesc described = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, 0));
  REQUIRE(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  REQUIRE(cuDevResourceGenerateDesc(&described, &all, 1));
  beside_ends(
      [&] {
        CUgreenCtx part = nullptr;
        REQUIRE(cuGreenCtxCreate(&part, described, 0, CU_GREEN_CTX_DEFAULT_STREAM));
        REQUIRE(cuGreenCtxDestroy(part));
      },
      [&] {
        for (int i = 0; i < rounds; ++i) {
          CUcontext context = nullptr;
          int device = -1;
          REQUIRE(cuCtxCreate(&context, nullptr, 0, 1));
          CUdeviceptr const block = make(1 << 12);
          REQUIRE(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
          REQUIRE_CODE(device, 1);
          REQUIRE(cuMemsetD8(block, 1, 1 << 12));
          REQUIRE(drop(block));
          REQUIRE(cuCtxDestroy(context));
        }
      });
  REQUIRE(cuDevicePrimaryCtxRelease(0));
}

// Its memory is its device's, whichever stream asks: the report and the driver agree at the end.
void pool() {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUmemoryPool pool = nullptr;
  CUmemPoolProps plain{};
  plain.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  plain.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  REQUIRE(cuCtxCreate(&context, nullptr, 0, 0));
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuMemPoolCreate(&pool, &plain));
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  REQUIRE_CODE(cuMemPoolDestroy(pool), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  REQUIRE_CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CUdeviceptr block = 0;
  ++counts.allocations;
  counts.bytes += 1 << 20;
  REQUIRE(cuMemAllocFromPoolAsync(&block, 1 << 20, pool, stream));
  REQUIRE(cuStreamSynchronize(stream));
}

// Managed memory, of which SYNC_MEMOPS is on from the start; nothing is freed before its context ends.
void settings(int rounds) {
  constexpr std::size_t bytes = 1 << 16;
  CUmemLocation const here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  for (int i = 0; i < rounds; ++i) {
    CUcontext context = nullptr;
    REQUIRE(cuCtxCreate(&context, nullptr, 0, 0));
    for (int each = 0; each < 4; ++each) {
      CUdeviceptr block = 0;
      unsigned value = 2;
      REQUIRE(cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
      REQUIRE(cuMemPrefetchAsync(block, bytes, here, 0, nullptr));
      REQUIRE(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
      REQUIRE_CODE(value, 1);
      value = 0;
      REQUIRE(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    }
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuCtxDestroy(context));
  }
}

std::uint64_t number_of(CUcontext context) {
  unsigned long long number = 0;
  return cuCtxGetId(context, &number) == CUDA_SUCCESS ? number : 0;
}

// By a trim of it all that is idle on the device goes back.
CUmemoryPool default_pool() {
  CUmemoryPool of_device = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&of_device, 0));
  return of_device;
}

// Memory that lies idle from then on, once the work is done.
void use_and_drop(std::size_t bytes) {
  CUdeviceptr const idle = make(bytes);
  REQUIRE(cuMemsetD8(idle, 1, bytes));
  REQUIRE(drop(idle));
}

// A context ends with memory idle in it. As soon as it has, and while the thread that ended it may not know
// yet, one thread takes as much, which may lie there, and another one has the next context and gives back
// what the device has idle.
void trims(int rounds) {
  constexpr std::size_t bytes = 4 << 20;
  CUmemoryPool const of_device = default_pool();
  for (int i = 0; i < rounds; ++i) {
    CUcontext first = nullptr;
    REQUIRE(cuCtxCreate(&first, nullptr, 0, 0));
    use_and_drop(bytes);
    REQUIRE(cuCtxSynchronize());
    std::uint64_t const number = number_of(first);
    std::atomic<int> there{0};
    std::atomic<bool> taken{false};
    auto const wait_for_end = [&] {
      ++there;
      while (number_of(first) == number) {
      }
    };
    std::thread takes([&] {
      CUcontext mine = nullptr;
      REQUIRE(cuCtxCreate(&mine, nullptr, 0, 0));
      wait_for_end();
      CUdeviceptr const block = make(bytes);
      taken = true;
      REQUIRE(cuMemsetD8(block, 2, bytes));
      REQUIRE(drop(block));
      REQUIRE(cuCtxDestroy(mine));
    });
    std::thread gives_back([&] {
      CUcontext next = nullptr;
      wait_for_end();
      REQUIRE(cuCtxCreate(&next, nullptr, 0, 0));
      while (!taken) REQUIRE(cuMemPoolTrimTo(of_device, 0));
      REQUIRE(cuCtxDestroy(next));
    });
    while (there < 2) std::this_thread::yield();
    REQUIRE(cuCtxDestroy(first));
    takes.join();
    gives_back.join();
  }
}

// A context ends with memory idle in it of which a library may not know yet that its work is done. Events of
// the next context are the thread's own, whatever the library may have kept of the first one's.
void events(int rounds) {
  constexpr std::size_t bytes = 4 << 20;
  CUmemoryPool const of_device = default_pool();
  for (int i = 0; i < rounds; ++i) {
    CUcontext first = nullptr;
    REQUIRE(cuCtxCreate(&first, nullptr, 0, 0));
    for (int each = 0; each < 3; ++each) {
      use_and_drop(bytes);
      if (each < 2) REQUIRE(cuMemPoolTrimTo(of_device, 0));
    }
    std::uint64_t const number = number_of(first);
    std::atomic<bool> there{false};
    std::thread other([&] {
      there = true;
      while (number_of(first) == number) {
      }
      CUcontext next = nullptr;
      CUevent mine[8] = {};
      float passed = 0;
      REQUIRE(cuCtxCreate(&next, nullptr, 0, 0));
      for (CUevent& each : mine) REQUIRE(cuEventCreate(&each, CU_EVENT_DEFAULT));
      for (int trim = 0; trim < 4; ++trim) REQUIRE(cuMemPoolTrimTo(of_device, 0));
      for (CUevent const each : mine)
        REQUIRE_CODE(cuEventElapsedTime(&passed, each, each), CUDA_ERROR_INVALID_HANDLE);
      for (CUevent const each : mine) REQUIRE(cuEventDestroy(each));
      REQUIRE(cuCtxDestroy(next));
    });
    while (!there) std::this_thread::yield();
    REQUIRE(cuCtxDestroy(first));
    other.join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  char const* const mode = argc > 1 ? argv[1] : "";
  int const rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  int devices = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGetCount(&devices));
  bool const of_two =
      std::strcmp(mode, "peers") == 0 || std::strcmp(mode, "green") == 0 || std::strcmp(mode, "pool") == 0;
  if (devices < 2 && of_two) {
    std::printf("needs two devices, %d found\n", devices);
    return 77;
  }
  if (std::strcmp(mode, "arrays") == 0) arrays(rounds);
  if (std::strcmp(mode, "peers") == 0) peers(rounds);
  if (std::strcmp(mode, "green") == 0) green(rounds);
  if (std::strcmp(mode, "pool") == 0) pool();
  if (std::strcmp(mode, "settings") == 0) settings(rounds);
  if (std::strcmp(mode, "trims") == 0) trims(rounds);
  if (std::strcmp(mode, "events") == 0) events(rounds);
  std::printf("%s: as if each handle had been new\n", mode);
  counts.print();
}
