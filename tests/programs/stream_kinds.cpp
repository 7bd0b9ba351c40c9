// Streams that come and go, one case an argument. "handles": ten thousand streams, whose handles are used
// again, each with blocks that outlive it. "threads": per-thread default streams of threads that die.
// "legacy": the legacy stream beside blocking ones. "devices": streams and blocks of two devices, whichever
// is current. "host_function": host functions that free. "signals": a timer that interrupts allocations a
// thousand times a second. Every use is ordered, so every byte is determined. Run plain and preloaded.
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t bytes = 50'000;

void handles() {
  checksum sum;
  cudaStream_t last;
  REQUIRE(cudaStreamCreateWithFlags(&last, cudaStreamNonBlocking));
  std::vector<void*> kept;
  for (int i = 0; i < 10'000; ++i) {
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    void* block = nullptr;
    void* freed = nullptr;
    REQUIRE(counted_malloc_async(&block, bytes, stream));
    REQUIRE(counted_malloc_async(&freed, bytes, stream));
    REQUIRE(cudaMemsetAsync(freed, 1, bytes, stream));
    REQUIRE(cudaMemsetAsync(block, i, bytes, stream));
    REQUIRE(counted_free_async(freed, stream));
    if (i % 16 == 0) REQUIRE(cudaStreamSynchronize(stream));
    REQUIRE(cudaStreamDestroy(stream));
    kept.push_back(block);
    if (kept.size() < 32) continue;
    REQUIRE(cudaDeviceSynchronize());
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (k == 7) verify_fill(kept[k], bytes, static_cast<unsigned char>(i - 31 + 7), sum);
      REQUIRE(k % 2 == 0 ? counted_free(kept[k]) : counted_free_async(kept[k], last));
    }
    kept.clear();
  }
  for (void* block : kept) REQUIRE(counted_free(block));
  std::printf("10000 streams, checksum %016llx\n", (unsigned long long)sum.value());
}

// Ten threads, one after the other, before anything is synchronised: what one frees on its stream is no
// other's.
void threads() {
  checksum sum;
  for (int group = 0; group < 30; ++group) {
    std::vector<void*> left(10);
    for (std::size_t i = 0; i < left.size(); ++i) {
      std::thread([&, i] {
        void* block = nullptr;
        REQUIRE(counted_malloc_async(&left[i], bytes, cudaStreamPerThread));
        REQUIRE(cudaMemsetAsync(left[i], static_cast<int>(i) + 1, bytes, cudaStreamPerThread));
        REQUIRE(counted_malloc_async(&block, bytes, cudaStreamPerThread));
        REQUIRE(cudaMemsetAsync(block, group, bytes, cudaStreamPerThread));
        REQUIRE(counted_free_async(block, cudaStreamPerThread));
      }).join();
    }
    REQUIRE(cudaDeviceSynchronize());
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (i % 4 == 0) verify_fill(left[i], bytes, static_cast<unsigned char>(i + 1), sum);
      REQUIRE(counted_free_async(left[i], cudaStreamPerThread));
    }
  }
  REQUIRE(cudaDeviceSynchronize());
  std::printf("300 threads, checksum %016llx\n", (unsigned long long)sum.value());
}

// The legacy stream waits for blocking streams and they for it: no event is needed among them. With a stream
// that does not block they share nothing.
void legacy() {
  checksum sum;
  cudaStream_t blocking;
  cudaStream_t apart;
  REQUIRE(cudaStreamCreate(&blocking));
  REQUIRE(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  for (int i = 0; i < 300; ++i) {
    const cudaStream_t first = i % 2 == 0 ? cudaStreamLegacy : blocking;
    const cudaStream_t second = i % 2 == 0 ? blocking : cudaStreamLegacy;
    void* block = nullptr;
    void* other = nullptr;
    REQUIRE(counted_malloc_async(&block, bytes, first));
    REQUIRE(cudaMemsetAsync(block, i, bytes, first));
    if (i % 10 == 0) verify_fill(block, bytes, static_cast<unsigned char>(i), sum);
    REQUIRE(cudaMemsetAsync(block, 3, bytes, second));
    REQUIRE(counted_free_async(block, i % 3 == 0 ? nullptr : second));
    REQUIRE(counted_malloc_async(&other, bytes, apart));
    REQUIRE(cudaMemsetAsync(other, i, bytes, apart));
    REQUIRE(counted_free_async(other, apart));
  }
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaStreamDestroy(blocking));
  REQUIRE(cudaStreamDestroy(apart));
  std::printf("300 rounds, checksum %016llx\n", (unsigned long long)sum.value());
}

int device_of(const void* block) {
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, block));
  return attributes.device;
}

void devices() {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count));
  if (count < 2) std::exit(77);
  cudaStream_t stream[2];
  for (int d = 0; d < 2; ++d) {
    REQUIRE(cudaSetDevice(d));
    REQUIRE(cudaStreamCreateWithFlags(&stream[d], cudaStreamNonBlocking));
  }
  checksum sum;
  for (int i = 0; i < 200; ++i) {
    const int own = i % 2;
    const int other = 1 - own;
    void* ordered = nullptr;
    void* plain = nullptr;
    REQUIRE(cudaSetDevice(own));
    REQUIRE(counted_malloc(&plain, bytes));
    REQUIRE(cudaMemset(plain, i, bytes));
    REQUIRE(cudaSetDevice(other));  // the stream decides, not this
    REQUIRE(counted_malloc_async(&ordered, bytes, stream[own]));
    REQUIRE(cudaMemsetAsync(ordered, i, bytes, stream[own]));
    REQUIRE(cudaStreamSynchronize(stream[own]));
    if (i < 4) std::printf("plain on %d, ordered on %d\n", device_of(plain), device_of(ordered));
    REQUIRE(cudaSetDevice(own));  // memory of a device's pool is out of reach of another device's copies
    verify_fill(ordered, bytes, static_cast<unsigned char>(i), sum);
    verify_fill(plain, bytes, static_cast<unsigned char>(i), sum);
    REQUIRE(cudaSetDevice(other));
    REQUIRE(counted_free_async(ordered, stream[own]));
    REQUIRE(counted_free(plain));
  }
  for (int d = 0; d < 2; ++d) {
    REQUIRE(cudaSetDevice(d));
    REQUIRE(cudaDeviceSynchronize());
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    REQUIRE(cudaMemGetInfo(&free_bytes, &total));
    std::printf("device %d: free again to 64 MiB: %d\n", d, total - free_bytes < (64u << 20));
  }
  std::printf("200 rounds, checksum %016llx\n", (unsigned long long)sum.value());
}

// A driver may refuse calls of a host function; whether it does is not compared, only that nothing breaks.
void host_function() {
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  static std::atomic<int> ended{0};
  std::vector<void*> blocks(200);
  static std::atomic<void*> refused[200] = {};
  struct parcel {
    void* block;
    std::size_t index;
  };
  checksum sum;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    REQUIRE(cudaMalloc(&blocks[i], bytes));
    REQUIRE(cudaMemsetAsync(blocks[i], 4, bytes, stream));
    const auto run = [](void* argument) {
      auto* const mine = static_cast<parcel*>(argument);
      const cudaError_t code = cudaFree(mine->block);
      if (code == cudaErrorNotPermitted) {
        refused[mine->index] = mine->block;
      } else {
        REQUIRE(code);
      }
      ++ended;
      delete mine;
    };
    REQUIRE(cudaLaunchHostFunc(stream, run, new parcel{blocks[i], i}));
    void* more = nullptr;
    REQUIRE(cudaMallocAsync(&more, bytes, stream));
    REQUIRE(cudaMemsetAsync(more, 5, bytes, stream));
    if (i % 20 == 0) {
      REQUIRE(cudaStreamSynchronize(stream));
      verify_fill(more, bytes, 5, sum);
    }
    REQUIRE(cudaFreeAsync(more, stream));
  }
  REQUIRE(cudaStreamSynchronize(stream));
  for (auto& block : refused) REQUIRE(cudaFree(block));
  cudaGetLastError();
  std::printf("%d host functions, checksum %016llx\n", ended.load(), (unsigned long long)sum.value());
}

void signals() {
  static std::atomic<int> ticks{0};
  struct sigaction action = {};
  action.sa_handler = [](int) { ++ticks; };
  REQUIRE(sigaction(SIGPROF, &action, nullptr));
  for (int other : {SIGUSR1, SIGUSR2, SIGTERM, SIGSEGV}) {
    struct sigaction seen = {};
    REQUIRE(cudaFree(nullptr));
    REQUIRE(sigaction(other, nullptr, &seen));
    std::printf("signal %d: default %d\n", other, seen.sa_handler == SIG_DFL);
  }
  const itimerval every{{0, 1000}, {0, 1000}};
  REQUIRE(setitimer(ITIMER_PROF, &every, nullptr));
  checksum sum;
  for (int i = 0; i < 2000 || ticks < 50; ++i) {
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, static_cast<std::size_t>(1 + i % 300) * 1000));
    if (i % 100 == 0 && i < 2000) {
      REQUIRE(cudaMemset(block, 6, 1000));
      verify_fill(block, 1000, 6, sum);
    }
    REQUIRE(cudaFree(block));
  }
  const itimerval none{};
  REQUIRE(setitimer(ITIMER_PROF, &none, nullptr));
  struct sigaction seen = {};
  REQUIRE(sigaction(SIGPROF, nullptr, &seen));
  std::printf("own handler: %d, checksum %016llx\n", seen.sa_handler == action.sa_handler,
              (unsigned long long)sum.value());
}

}  // namespace

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "handles";
  const struct {
    const char* name;
    void (*run)();
    bool counted;
  } cases[] = {{"handles", handles, true},
               {"threads", threads, true},
               {"legacy", legacy, true},
               {"devices", devices, true},
               {"host_function", host_function, false},
               {"signals", signals, false}};
  for (const auto& each : cases) {
    if (std::strcmp(which, each.name) != 0) continue;
    each.run();
    if (each.counted) counts.print();
  }
}
