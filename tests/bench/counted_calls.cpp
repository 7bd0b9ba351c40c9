// The loops whose instructions and atomic operations are counted: each function counted_* is `rounds` pairs
// of calls after a warm-up that is not counted. instruction_counts.py runs it under callgrind, which sees the
// functions by their names. One thread, simulated CUDA, nothing that depends on time. Argument: rounds;
// prints them and the names.
#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "shim/include/gpumem/gpumem.h"
#include "tests/programs/support.hpp"

#define COUNTED extern "C" __attribute__((noinline, visibility("default"))) void

namespace {

int rounds = 1000;
cudaStream_t first, second;

struct held {
  void* block = nullptr;
  std::size_t bytes = 0;
};
std::array<held, 64> window;

std::size_t carved_size(programs::sequence& random) {
  return 512 * (1 + random.next(128));
}

template <typename allocate, typename release>
void exchange(programs::sequence& random, std::size_t i, allocate get, release give) {
  held& oldest = window[i % window.size()];
  if (oldest.block != nullptr) give(oldest.block);
  oldest.bytes = carved_size(random);
  oldest.block = get(oldest.bytes);
}

template <typename release>
void empty_window(release give) {
  for (held& each : window) {
    if (each.block != nullptr) give(each.block);
    each = {};
  }
}

void* malloc_block(std::size_t bytes) {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, bytes));
  return block;
}
void* async_block(std::size_t bytes) {
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, bytes, first));
  return block;
}
void free_block(void* block) {
  REQUIRE(cudaFree(block));
}
void free_on_first(void* block) {
  REQUIRE(cudaFreeAsync(block, first));
}

programs::sequence carving(5);

// The work of the threads' workload of mixed sizes (bench/workloads/threads.cpp): 256 B to 16 MiB, evenly in
// the logarithm, 32 of them held.
template <typename allocate, typename release>
void mix(programs::sequence& random, allocate get, release give) {
  held& chosen = window[random.next(32)];
  if (chosen.block != nullptr) give(chosen.block);
  const std::size_t power = std::size_t{256} << random.next(16);
  chosen.block = get(power + random.next(power));
}

programs::sequence mixing(7);

CUdeviceptr looked_up;
CUresult (*address_range)(CUdeviceptr*, size_t*, CUdeviceptr);

}  // namespace

COUNTED counted_malloc_4KiB() {
  for (int i = 0; i < rounds; ++i) free_block(malloc_block(4096));
}
COUNTED counted_malloc_32MiB() {
  for (int i = 0; i < rounds; ++i) free_block(malloc_block(32 << 20));
}
COUNTED counted_async_4KiB() {
  for (int i = 0; i < rounds; ++i) free_on_first(async_block(4096));
}
COUNTED counted_async_32MiB() {
  for (int i = 0; i < rounds; ++i) free_on_first(async_block(32 << 20));
}
COUNTED counted_async_freed_on_another_stream() {
  for (int i = 0; i < rounds; ++i) REQUIRE(cudaFreeAsync(async_block(4096), second));
}
COUNTED counted_malloc_any_size() {
  for (int i = 0; i < rounds; ++i) exchange(carving, static_cast<std::size_t>(i), malloc_block, free_block);
}
COUNTED counted_async_any_size() {
  for (int i = 0; i < rounds; ++i) exchange(carving, static_cast<std::size_t>(i), async_block, free_on_first);
}
COUNTED counted_malloc_mixed() {
  for (int i = 0; i < rounds; ++i) mix(mixing, malloc_block, free_block);
}
COUNTED counted_async_mixed() {
  for (int i = 0; i < rounds; ++i) mix(mixing, async_block, free_on_first);
}
COUNTED counted_malloc_4KiB_among_10000_live() {
  for (int i = 0; i < rounds; ++i) free_block(malloc_block(4096));
}
COUNTED counted_malloc_4KiB_in_a_phase() {
  for (int i = 0; i < rounds; ++i) free_block(malloc_block(4096));
}
COUNTED counted_phase() {
  for (int i = 0; i < rounds; ++i) {
    gpumem_phase_begin("step 17");
    gpumem_phase_end();
  }
}
// Begin and end add up the counters of 17 threads, and the begin deals shares out to them, as requests that
// have used theirs up do.
COUNTED counted_phase_among_16_threads() {
  for (int i = 0; i < rounds; ++i) {
    gpumem_phase_begin("step 18");
    gpumem_phase_end();
  }
}
COUNTED counted_refused() {
  void* block = nullptr;
  for (int i = 0; i < rounds; ++i) {
    if (cudaMalloc(&block, std::size_t{1} << 45) != cudaErrorMemoryAllocation) std::abort();
    static_cast<void>(cudaGetLastError());
  }
}
COUNTED counted_managed_4KiB() {
  for (int i = 0; i < rounds; ++i) {
    void* block = nullptr;
    REQUIRE(cudaMallocManaged(&block, 4096, cudaMemAttachGlobal));
    REQUIRE(cudaFree(block));
  }
}
COUNTED counted_pitched() {
  for (int i = 0; i < rounds; ++i) {
    void* block = nullptr;
    std::size_t pitch = 0;
    REQUIRE(cudaMallocPitch(&block, &pitch, 1000, 4));
    REQUIRE(cudaFree(block));
  }
}
COUNTED counted_memory_info() {
  std::size_t free = 0, total = 0;
  for (int i = 0; i < rounds; ++i) REQUIRE(cudaMemGetInfo(&free, &total));
}
COUNTED counted_device_synchronize() {
  for (int i = 0; i < rounds; ++i) REQUIRE(cudaDeviceSynchronize());
}
COUNTED counted_stream_synchronize() {
  for (int i = 0; i < rounds; ++i) REQUIRE(cudaStreamSynchronize(first));
}
COUNTED counted_stream() {
  for (int i = 0; i < rounds; ++i) {
    cudaStream_t made = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    REQUIRE(cudaStreamDestroy(made));
  }
}
COUNTED counted_stream_with_a_pair() {
  for (int i = 0; i < rounds; ++i) {
    cudaStream_t made = nullptr;
    void* block = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    REQUIRE(cudaMallocAsync(&block, 4096, made));
    REQUIRE(cudaFreeAsync(block, made));
    REQUIRE(cudaStreamDestroy(made));
  }
}
COUNTED counted_event_wait() {
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int i = 0; i < rounds; ++i) {
    REQUIRE(cudaEventRecord(event, first));
    REQUIRE(cudaStreamWaitEvent(second, event, 0));
  }
  REQUIRE(cudaEventDestroy(event));
}
COUNTED counted_pool_figure() {
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t used = 0;
  for (int i = 0; i < rounds; ++i)
    REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
}
cudaMemPool_t own_pool() {
  static cudaMemPool_t own = nullptr;
  cudaMemPoolProps device{};
  device.allocType = cudaMemAllocationTypePinned;
  device.location = {cudaMemLocationTypeDevice, {0}};
  if (own == nullptr) REQUIRE(cudaMemPoolCreate(&own, &device));
  return own;
}
COUNTED counted_own_pool_4KiB() {
  cudaMemPool_t const own = own_pool();
  for (int i = 0; i < rounds; ++i) {
    void* block = nullptr;
    REQUIRE(cudaMallocFromPoolAsync(&block, 4096, own, first));
    REQUIRE(cudaFreeAsync(block, first));
  }
}
COUNTED counted_own_pool_figure() {
  cudaMemPool_t const own = own_pool();
  std::uint64_t used = 0;
  for (int i = 0; i < rounds; ++i)
    REQUIRE(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used));
}
COUNTED counted_capture() {
  for (int i = 0; i < rounds; ++i) {
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
    REQUIRE(cudaStreamEndCapture(first, &graph));
    REQUIRE(cudaGraphDestroy(graph));
  }
}
COUNTED counted_capture_with_a_pair() {  // nodes of the graph, on its first run memory of the device's
  for (int i = 0; i < rounds; ++i) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    void* block = nullptr;
    REQUIRE(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
    REQUIRE(cudaMallocAsync(&block, 4096, first));
    REQUIRE(cudaFreeAsync(block, first));
    REQUIRE(cudaStreamEndCapture(first, &graph));
    REQUIRE(cudaGraphInstantiate(&ready, graph, 0));
    REQUIRE(cudaGraphLaunch(ready, first));
    REQUIRE(cudaStreamSynchronize(first));
    REQUIRE(cudaGraphExecDestroy(ready));
    REQUIRE(cudaGraphDestroy(graph));
  }
}
COUNTED counted_ipc_handle() {
  void* const block = malloc_block(4096);
  cudaIpcMemHandle_t handle;
  for (int i = 0; i < rounds; ++i) REQUIRE(cudaIpcGetMemHandle(&handle, block));
  free_block(block);
}
COUNTED counted_address_range() {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  for (int i = 0; i < rounds; ++i) REQUIRE(address_range(&base, &bytes, looked_up));
}
COUNTED counted_pointer_attributes() {
  cudaPointerAttributes about{};
  for (int i = 0; i < rounds; ++i)
    REQUIRE(cudaPointerGetAttributes(&about, reinterpret_cast<void const*>(looked_up)));
}
COUNTED counted_host_4KiB() {
  for (int i = 0; i < rounds; ++i) {
    void* block = nullptr;
    REQUIRE(cudaMallocHost(&block, 4096));
    REQUIRE(cudaFreeHost(block));
  }
}

// All alive at once, so that each has counters of its own; one after the other, so that each has the same
// block each time.
static void run_16_threads() {
  std::barrier all_there(17);
  std::atomic<int> asked = 0;
  std::vector<std::jthread> threads;
  for (int own = 0; own < 16; ++own) {
    threads.emplace_back([&] {
      free_block(malloc_block(4096));
      ++asked;
      asked.notify_one();
      all_there.arrive_and_wait();
    });
    asked.wait(own);
  }
  all_there.arrive_and_wait();
}

int main(int argc, char** argv) {
  if (argc > 1) rounds = std::atoi(argv[1]);
  REQUIRE(cudaFree(nullptr));
  REQUIRE(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  const int counted = rounds;
  const auto twice = [counted](void (*run)()) {
    rounds = counted / 4;  // warm: the same loop, under the same name, whose figures the reader leaves out
    run();
    rounds = counted;
    run();
  };
  twice(counted_malloc_4KiB);
  // Such a loop gets these by itself where it runs at full speed, which it does not when it is counted.
  for (std::size_t i = 0; i < 4; ++i) window[i].block = malloc_block(32 << 20);
  empty_window(free_block);
  twice(counted_malloc_32MiB);
  twice(counted_async_4KiB);
  twice(counted_async_32MiB);
  twice(counted_async_freed_on_another_stream);
  twice(counted_malloc_any_size);
  empty_window(free_block);
  twice(counted_async_any_size);
  empty_window(free_on_first);
  twice(counted_host_4KiB);

  std::vector<void*> live(10000);
  for (void*& each : live) each = malloc_block(1024);
  looked_up = reinterpret_cast<CUdeviceptr>(live[live.size() / 2]) + 100;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  address_range = reinterpret_cast<decltype(address_range)>(dlsym(driver, "cuMemGetAddressRange_v2"));
  twice(counted_malloc_4KiB_among_10000_live);
  twice(counted_address_range);
  twice(counted_pointer_attributes);
  for (void* each : live) free_block(each);
  for (int i = 0; i < 20 * counted; ++i) mix(mixing, malloc_block, free_block);  // it settles slowly
  twice(counted_malloc_mixed);
  empty_window(free_block);
  for (int i = 0; i < 20 * counted; ++i) mix(mixing, async_block, free_on_first);
  twice(counted_async_mixed);
  empty_window(free_on_first);
  if (gpumem_is_loaded()) {
    gpumem_phase_begin("outer");
    twice(counted_malloc_4KiB_in_a_phase);
    twice(counted_phase);
    gpumem_phase_end();
    run_16_threads();
    twice(counted_phase_among_16_threads);
  }
  twice(counted_refused);
  twice(counted_managed_4KiB);
  twice(counted_pitched);
  twice(counted_memory_info);
  twice(counted_device_synchronize);
  twice(counted_stream_synchronize);
  twice(counted_stream);
  twice(counted_stream_with_a_pair);
  twice(counted_event_wait);
  twice(counted_pool_figure);
  twice(counted_own_pool_4KiB);
  twice(counted_own_pool_figure);
  twice(counted_capture);
  twice(counted_capture_with_a_pair);
  twice(counted_ipc_handle);
  std::printf("%d rounds\n", counted);
}
