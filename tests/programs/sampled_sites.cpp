// Memory of known sizes from known places, which samples are to tell apart: sampled_sites sites|full|soak.
// `sites`: take_large holds 3 x 64 MiB, take_small 512 x 128 KiB, take_passing 96 MiB that it gives back
// (all of it is there at the most), take_array an array of 8 MiB; `full`: take_large, until it is refused.
// `soak`: for two seconds, on several threads: blocks from everywhere, threads that are cancelled and that
// end, forks, children that replace themselves, a timer's signals, small stacks. One device, the driver
// alone.
#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define PLACE extern "C" __attribute__((noinline, visibility("default")))

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
std::atomic<int> after{0};  // counted after each call, so that none is a jump

void require(bool good, const char* what) {
  if (good) return;
  std::printf("failed: %s\n", what);
  std::_Exit(1);
}

CUcontext context;

}  // namespace

PLACE CUdeviceptr take_large(std::size_t bytes) {
  CUdeviceptr block = 0;
  if (cuMemAlloc(&block, bytes) != CUDA_SUCCESS) block = 0;
  ++after;
  return block;
}
PLACE CUdeviceptr take_small(std::size_t bytes) {
  CUdeviceptr block = 0;
  require(cuMemAlloc(&block, bytes) == CUDA_SUCCESS, "a small block");
  ++after;
  return block;
}
PLACE CUdeviceptr take_passing(std::size_t bytes) {
  CUdeviceptr block = 0;
  require(cuMemAllocAsync(&block, bytes, CU_STREAM_LEGACY) == CUDA_SUCCESS, "a block of a stream");
  ++after;
  return block;
}
PLACE void take_array() {
  CUDA_ARRAY_DESCRIPTOR what{};
  what.Width = 8 * 1024, what.Height = 1024, what.Format = CU_AD_FORMAT_UNSIGNED_INT8, what.NumChannels = 1;
  CUarray array = nullptr;
  require(cuArrayCreate(&array, &what) == CUDA_SUCCESS, "an array");
  ++after;
}

namespace {

void hold_known_sizes() {
  for (int i = 0; i < 3; ++i) require(take_large(64 * mib) != 0, "a large block");
  for (int i = 0; i < 512; ++i) take_small(mib / 8);
  take_array();
  std::vector<CUdeviceptr> passing;
  for (int i = 0; i < 96; ++i) passing.push_back(take_passing(mib));
  for (CUdeviceptr block : passing)
    require(cuMemFreeAsync(block, CU_STREAM_LEGACY) == CUDA_SUCCESS, "a free");
}

// --- soak ---

std::atomic<bool> over{false};

[[gnu::noinline]] void deeper(int depth, unsigned& random) {
  if (depth > 0) {
    deeper(depth - 1, random);
    ++after;
    return;
  }
  random = random * 1664525 + 1013904223;
  CUdeviceptr block = random % 3 == 0 ? take_passing(1 + random % (4 * mib)) : take_large(1 + random % mib);
  if (block == 0) return;
  ++after;
  cuMemFree(block);
}

void* work(void* seed) {
  cuCtxSetCurrent(context);
  auto random = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(seed));
  while (!over) deeper(static_cast<int>(random >> 8) % 12, random);
  return nullptr;
}
void* work_until_cancelled(void* seed) {
  cuCtxSetCurrent(context);
  auto random = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(seed));
  for (;;) {
    deeper(static_cast<int>(random >> 8) % 12, random);
    pthread_testcancel();
  }
}
void* work_shortly(void* seed) {
  cuCtxSetCurrent(context);
  auto random = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(seed));
  for (int i = 0; i < 20; ++i) deeper(3, random);
  return nullptr;
}

// What a profiler does: it interrupts whatever runs, a walk of the stack too, and writes below it.
void on_signal(int) {
  volatile char below[4096];
  for (std::size_t i = 0; i < sizeof below; i += 64) below[i] = 1;
  ++after;
}

void soak(const char* self) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  const itimerval each{{0, 3000}, {0, 3000}};
  std::vector<pthread_t> threads(3);
  for (std::size_t i = 0; i < threads.size(); ++i)
    pthread_create(&threads[i], nullptr, work, reinterpret_cast<void*>(i + 1));
  setitimer(ITIMER_PROF, &each, nullptr);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 32 << 10);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (unsigned round = 0; std::chrono::steady_clock::now() < end; ++round) {
    pthread_t passing, little;
    pthread_create(&passing, nullptr, work_until_cancelled,
                   reinterpret_cast<void*>(std::uintptr_t{round} + 7));
    require(pthread_create(&little, &small, work_shortly,
                           reinterpret_cast<void*>(std::uintptr_t{round} + 9)) == 0,
            "a thread with a small stack");
    if (const pid_t child = fork(); child == 0) {
      if (round % 2 == 0) execl(self, self, "sites", nullptr);
      _exit(0);
    } else {
      int status = -1;
      while (waitpid(child, &status, 0) < 0) {
      }
      require(status == 0, "a child");
    }
    pthread_join(little, nullptr);
    pthread_cancel(passing);
    void* result = nullptr;
    pthread_join(passing, &result);
    require(result == PTHREAD_CANCELED, "a cancelled thread");
  }
  over = true;
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  CUdevice device = 0;
  require(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS, "a device");
  require(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS, "a context");
  require(cuCtxSetCurrent(context) == CUDA_SUCCESS, "a context");
  if (std::strcmp(argv[1], "soak") == 0) soak("/proc/self/exe");
  if (std::strcmp(argv[1], "sites") == 0) hold_known_sizes();
  if (std::strcmp(argv[1], "full") == 0) {
    for (int i = 0; i < 64; ++i) take_small(mib);
    while (take_large(64 * mib) != 0) {
    }
  }
  if (std::strcmp(argv[1], "sites") != 0 || argc > 2) std::printf("done\n");
}
