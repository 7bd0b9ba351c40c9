// Not a program: a preload library that lets every context of a program be one that came after others. Before
// main it makes, uses and ends contexts of each device, EARLIER_LIVES times: the primary one, in turn by a
// reset, with access of peers, and by its last release, without, and one of cuCtxCreate. Each leaves what it
// can: live blocks of every kind, blocks whose frees wait, settings, access of peers, an exported block, a
// capture under way. Every function by its name, those that a driver lacks are left out; knows nothing of
// gpumem. EARLIER_LIFE_COUNTS: a file that gets what it asked of the driver, as a program prints it;
// EARLIER_LIFE_NOTES: the simulated CUDA is told of blocks, as its runtime does; EARLIER_LIFE_EXPORTS: a
// block is exported, which only memory of cuMemAlloc can be. Runs on a GPU as well.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

namespace {

struct tally {
  unsigned long long allocations = 0, frees = 0, async_allocations = 0, async_frees = 0, bytes = 0;
};
tally counts;
bool notes = false;
bool exports = false;

void* symbol(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

void expect(long code, const char* what, int line) {
  if (code == 0) return;
  std::fprintf(stderr, "earlier_life.cpp:%d: %s gave %ld\n", line, what, code);
  std::_Exit(3);
}

// Zero where the driver lacks the function.
template <typename Function, typename... With>
int call(const char* name, With... with) {
  auto* const function = reinterpret_cast<Function*>(symbol(name));
  return function == nullptr ? 0 : static_cast<int>(function(with...));
}
#define STRING(of) STRING_OF(of)
#define STRING_OF(of) #of
#define ASK(function, ...) call<decltype(function)>(STRING(function) __VA_OPT__(, ) __VA_ARGS__)
#define CALL(function, ...) expect(ASK(function __VA_OPT__(, ) __VA_ARGS__), STRING(function), __LINE__)
#define HAS(function) (symbol(STRING(function)) != nullptr)

void note_allocate(CUdeviceptr block, std::size_t bytes, CUstream on) {
  using function = void (*)(CUdeviceptr, std::size_t, CUstream);
  static auto* const tell = reinterpret_cast<function>(symbol("simulatedNoteAllocate"));
  if (notes && tell != nullptr) tell(block, bytes, on);
}
void note_free(CUdeviceptr block, CUstream on) {
  using function = void (*)(CUdeviceptr, CUstream);
  static auto* const tell = reinterpret_cast<function>(symbol("simulatedNoteFree"));
  if (notes && tell != nullptr) tell(block, on);
}

CUdeviceptr make(std::size_t bytes) {
  CUdeviceptr block = 0;
  ++counts.allocations;
  counts.bytes += bytes;
  CALL(cuMemAlloc, &block, bytes);
  note_allocate(block, bytes, nullptr);
  CALL(cuMemsetD8Async, block, static_cast<unsigned char>(7), std::min<std::size_t>(bytes, 4096), nullptr);
  return block;
}
void drop(CUdeviceptr block) {
  ++counts.frees;
  note_free(block, nullptr);
  CALL(cuMemFree, block);
}
CUdeviceptr make_async(std::size_t bytes, CUstream on, bool noted = true) {
  CUdeviceptr block = 0;
  ++counts.async_allocations;
  counts.bytes += bytes;
  CALL(cuMemAllocAsync, &block, bytes, on);
  if (noted) note_allocate(block, bytes, on);
  CALL(cuMemsetD8Async, block, static_cast<unsigned char>(8), std::min<std::size_t>(bytes, 4096), on);
  return block;
}
void drop_async(CUdeviceptr block, CUstream on, bool noted = true) {
  ++counts.async_frees;
  if (noted) note_free(block, on);
  CALL(cuMemFreeAsync, block, on);
}

constexpr std::size_t small[] = {1, 512, 1000, 4096, 70'000};
constexpr std::size_t large[] = {1 << 20, 3 << 20, 8 << 20};

// Every other block stays.
void plain_blocks() {
  std::vector<CUdeviceptr> live;
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t bytes : small) live.push_back(make(bytes + round));
    for (const std::size_t bytes : large) live.push_back(make(bytes));
    for (std::size_t i = 0; i < live.size(); i += 2) drop(live[i]);
    live.clear();
  }
  drop(make(40 << 20));
  CUdeviceptr pitched = 0;
  std::size_t pitch = 0;
  CALL(cuMemAllocPitch, &pitched, &pitch, std::size_t{1000}, std::size_t{33}, 4u);
  CALL(cuMemAllocPitch, &pitched, &pitch, std::size_t{500}, std::size_t{7}, 8u);
  CALL(cuMemFree, pitched);
  ++counts.frees;
  unsigned on = 1;
  const CUdeviceptr set = make(20'000);
  ASK(cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, set);  // refused over vmm
}

// All are freed: of pools memory is the process's, not the context's. The last of each stream with no wait
// behind.
void ordered_blocks(const std::vector<CUstream>& streams) {
  if (!HAS(cuMemAllocAsync)) return;
  for (int round = 0; round < 3; ++round) {
    for (const CUstream on : streams) {
      for (const std::size_t bytes : {std::size_t{100}, std::size_t{70'000}, std::size_t{3} << 20}) {
        const CUdeviceptr block = make_async(bytes, on);
        drop_async(block, on);
      }
      const CUdeviceptr foreign = make_async(300'000, on);
      CALL(cuStreamSynchronize, on);
      drop_async(foreign, streams.front());
      const CUdeviceptr freed_plainly = make_async(5000, on);
      CALL(cuStreamSynchronize, on);
      drop(freed_plainly);
    }
  }
}

void own_pool(CUdevice device, CUstream on) {
  if (!HAS(cuMemPoolCreate)) return;
  CUmemPoolProps wanted{};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  CUmemoryPool pool = nullptr;
  CUmemoryPool usual = nullptr;
  CUdeviceptr block = 0;
  CALL(cuMemPoolCreate, &pool, &wanted);
  CALL(cuMemAllocFromPoolAsync, &block, std::size_t{2} << 20, pool, on);
  drop_async(block, on, false);
  CALL(cuDeviceGetMemPool, &usual, device);
  CALL(cuDeviceSetMemPool, device, pool);
  drop_async(make_async(10'000, on), on);
  CALL(cuDeviceSetMemPool, device, usual);
  CALL(cuMemAllocFromPoolAsync, &block, std::size_t{1} << 20, usual, on);
  drop_async(block, on, false);
  CALL(cuStreamSynchronize, on);
  CALL(cuMemPoolDestroy, pool);
}

void other_kinds(CUstream on) {
  CUdeviceptr managed[3]{};
  void* host[3]{};
  for (CUdeviceptr& each : managed)
    CALL(cuMemAllocManaged, &each, std::size_t{300'000}, static_cast<unsigned>(CU_MEM_ATTACH_GLOBAL));
  CALL(cuMemsetD8Async, managed[0], static_cast<unsigned char>(3), std::size_t{300'000}, on);
  CALL(cuMemFree, managed[1]);
  ++counts.frees;
  CALL(cuMemHostAlloc, &host[0], std::size_t{5000}, 0u);
  CALL(cuMemHostAlloc, &host[1], std::size_t{3} << 20, static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE));
  CALL(cuMemHostAlloc, &host[2], std::size_t{5000}, static_cast<unsigned>(CU_MEMHOSTALLOC_DEVICEMAP));
  CALL(cuMemFreeHost, host[1]);
  CUDA_ARRAY_DESCRIPTOR wanted{.Width = 128, .Height = 32, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  CUarray array = nullptr;
  CALL(cuArrayCreate, &array, &wanted);
}

// One whole, one whose graph lives as long as it can, and one that is under way when the context ends.
void captures(CUstream one, CUstream other) {
  if (!HAS(cuMemAllocAsync)) return;
  const CUdeviceptr waits = make(9000);
  for (int i = 0; i < 2; ++i) {
    CUgraph graph = nullptr;
    CUdeviceptr inside = 0;
    CALL(cuStreamBeginCapture, one, CU_STREAM_CAPTURE_MODE_RELAXED);
    ++counts.async_allocations;
    counts.bytes += 4096;
    CALL(cuMemAllocAsync, &inside, std::size_t{4096}, one);
    ++counts.async_frees;
    CALL(cuMemFreeAsync, inside, one);
    if (i == 0) drop_async(make_async(6000, other), other);
    CALL(cuStreamEndCapture, one, &graph);
    CALL(cuGraphDestroy, graph);
  }
  CALL(cuStreamBeginCapture, one, CU_STREAM_CAPTURE_MODE_RELAXED);
  CALL(cuMemsetD8Async, waits, static_cast<unsigned char>(1), std::size_t{9000}, one);
}

void use(CUdevice device, bool captured) {
  CUstream created = nullptr;
  CUstream blocking = nullptr;
  CALL(cuStreamCreate, &created, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate, &blocking, static_cast<unsigned>(CU_STREAM_DEFAULT));
  plain_blocks();
  ordered_blocks({created, blocking, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD});
  own_pool(device, created);
  other_kinds(blocking);
  CUipcMemHandle handle{};
  const CUdeviceptr exported = make(30'000);
  if (exports) CALL(cuIpcGetMemHandle, &handle, exported);
  drop(exported);
  CUcontext here = nullptr;
  CALL(cuCtxGetCurrent, &here);
  std::thread([&] {
    CALL(cuCtxSetCurrent, here);
    plain_blocks();
    ordered_blocks({CU_STREAM_PER_THREAD, created});
  }).join();
  CALL(cuCtxSynchronize);
  if (captured) captures(created, blocking);
}

// Of a default pool: from a first question on its figures go on over all lives.
void ask_pool(CUdevice device) {
  if (!HAS(cuMemPoolGetAttribute)) return;
  CUmemoryPool pool = nullptr;
  cuuint64_t used = 0;
  CALL(cuDeviceGetDefaultMemPool, &pool, device);
  CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, static_cast<void*>(&used));
}

void live(const std::vector<CUdevice>& devices, bool by_reset, bool with_peers) {
  std::map<CUdevice, CUcontext> primaries;
  std::map<CUdevice, CUcontext> made;
  for (const CUdevice d : devices) {
    CALL(cuDevicePrimaryCtxRetain, &primaries[d], d);
    CALL(cuCtxSetCurrent, primaries[d]);
    ask_pool(d);
    drop(make(10'000));  // a chain, before there are peers
  }
  for (const CUdevice d : devices) {
    CALL(cuCtxSetCurrent, primaries[d]);
    for (const CUdevice other : devices) {
      int can = 0;
      if (other != d && with_peers) CALL(cuDeviceCanAccessPeer, &can, d, other);
      if (can != 0) CALL(cuCtxEnablePeerAccess, primaries[other], 0u);
    }
    use(d, false);
    auto* const create =
        reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(symbol("cuCtxCreate_v2"));
    expect(create(&made[d], 0, d), "cuCtxCreate_v2", __LINE__);
    use(d, true);
    CUcontext popped = nullptr;
    CALL(cuCtxPopCurrent, &popped);
  }
  for (const CUdevice d : devices) {
    CALL(cuCtxDestroy, made[d]);
    CALL(cuCtxSetCurrent, primaries[d]);
    use(d, true);
    if (by_reset) CALL(cuDevicePrimaryCtxReset, d);
    CALL(cuCtxSetCurrent, nullptr);
    CALL(cuDevicePrimaryCtxRelease, d);
  }
}

void write_counts() {
  const char* const path = std::getenv("EARLIER_LIFE_COUNTS");
  if (path == nullptr) return;
  std::FILE* const file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(
      file, "%d counts: cuMemAlloc=%llu cuMemFree=%llu cuMemAllocAsync=%llu cuMemFreeAsync=%llu bytes=%llu\n",
      static_cast<int>(getpid()), counts.allocations, counts.frees, counts.async_allocations,
      counts.async_frees, counts.bytes);
  std::fclose(file);
}

void earlier_lives() {
  const char* const wanted = std::getenv("EARLIER_LIVES");
  const int lives = wanted != nullptr ? std::atoi(wanted) : 1;
  notes = std::getenv("EARLIER_LIFE_NOTES") != nullptr;
  exports = std::getenv("EARLIER_LIFE_EXPORTS") != nullptr;
  if (lives == 0 || symbol("cuInit") == nullptr) return;
  CALL(cuInit, 0u);
  int count = 0;
  CALL(cuDeviceGetCount, &count);
  std::vector<CUdevice> devices;
  for (int i = 0; i < count; ++i) devices.push_back(i);
  for (int i = 0; i < lives; ++i) live(devices, i % 2 == 0, i % 2 == 0);
  write_counts();
}

int (*program_main)(int, char**, char**) = nullptr;

int main_after(int argc, char** argv, char** environment) {
  earlier_lives();
  return program_main(argc, argv, environment);
}

}  // namespace

// libc's, whatever its arguments but the first mean.
extern "C" __attribute__((visibility("default"))) int __libc_start_main(int (*run)(int, char**, char**),
                                                                        int argc, char** argv,
                                                                        void (*begin)(), void (*end)(),
                                                                        void (*unload)(), void* stack) {
  using function =
      int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  program_main = run;
  return reinterpret_cast<function>(dlsym(RTLD_NEXT, "__libc_start_main"))(&main_after, argc, argv, begin,
                                                                           end, unload, stack);
}
