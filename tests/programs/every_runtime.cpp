// every_runtime [LIBCUDART]: what programs usually ask of the CUDA runtime, of whichever version: the
// library is opened by its path, and each function is found by name and typed by hand, so one program fits
// all from 11.0 on. Built with STATIC_RUNTIME it is linked with a static runtime instead. Prints a transcript
// that must be the same plain and preloaded: codes, contents, facts, no addresses. One thread, then four.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using pointer = void*;
using size = std::size_t;

// Every function that is used: result and arguments as the runtime's headers have them since 11.0.
#define FUNCTIONS(X)                                                                \
  X(cudaRuntimeGetVersion, int(int*))                                               \
  X(cudaGetDeviceCount, int(int*))                                                  \
  X(cudaSetDevice, int(int))                                                        \
  X(cudaGetDevice, int(int*))                                                       \
  X(cudaDeviceGetAttribute, int(int*, int, int))                                    \
  X(cudaGetDeviceProperties, int(void*, int))                                       \
  X(cudaGetDeviceProperties_v2, int(void*, int))                                    \
  X(cudaDeviceSynchronize, int())                                                   \
  X(cudaDeviceReset, int())                                                         \
  X(cudaMemGetInfo, int(size*, size*))                                              \
  X(cudaGetLastError, int())                                                        \
  X(cudaPeekAtLastError, int())                                                     \
  X(cudaGetErrorName, const char*(int))                                             \
  X(cudaMalloc, int(pointer*, size))                                                \
  X(cudaFree, int(pointer))                                                         \
  X(cudaMallocHost, int(pointer*, size))                                            \
  X(cudaHostAlloc, int(pointer*, size, unsigned))                                   \
  X(cudaHostGetDevicePointer, int(pointer*, pointer, unsigned))                     \
  X(cudaHostGetFlags, int(unsigned*, pointer))                                      \
  X(cudaFreeHost, int(pointer))                                                     \
  X(cudaMallocManaged, int(pointer*, size, unsigned))                               \
  X(cudaMallocPitch, int(pointer*, size*, size, size))                              \
  X(cudaMemset, int(pointer, int, size))                                            \
  X(cudaMemsetAsync, int(pointer, int, size, pointer))                              \
  X(cudaMemset2D, int(pointer, size, int, size, size))                              \
  X(cudaMemcpy, int(pointer, const void*, size, int))                               \
  X(cudaMemcpyAsync, int(pointer, const void*, size, int, pointer))                 \
  X(cudaMemcpy2D, int(pointer, size, const void*, size, size, size, int))           \
  X(cudaMallocAsync, int(pointer*, size, pointer))                                  \
  X(cudaFreeAsync, int(pointer, pointer))                                           \
  X(cudaMallocFromPoolAsync, int(pointer*, size, pointer, pointer))                 \
  X(cudaDeviceGetDefaultMemPool, int(pointer*, int))                                \
  X(cudaDeviceGetMemPool, int(pointer*, int))                                       \
  X(cudaMemPoolCreate, int(pointer*, const void*))                                  \
  X(cudaMemPoolDestroy, int(pointer))                                               \
  X(cudaMemPoolSetAttribute, int(pointer, int, void*))                              \
  X(cudaMemPoolGetAttribute, int(pointer, int, void*))                              \
  X(cudaMemPoolTrimTo, int(pointer, size))                                          \
  X(cudaPointerGetAttributes, int(void*, const void*))                              \
  X(cudaIpcGetMemHandle, int(void*, pointer))                                       \
  X(cudaStreamCreate, int(pointer*))                                                \
  X(cudaStreamCreateWithFlags, int(pointer*, unsigned))                             \
  X(cudaStreamDestroy, int(pointer))                                                \
  X(cudaStreamSynchronize, int(pointer))                                            \
  X(cudaStreamQuery, int(pointer))                                                  \
  X(cudaStreamWaitEvent, int(pointer, pointer, unsigned))                           \
  X(cudaEventCreate, int(pointer*))                                                 \
  X(cudaEventRecord, int(pointer, pointer))                                         \
  X(cudaEventSynchronize, int(pointer))                                             \
  X(cudaEventElapsedTime, int(float*, pointer, pointer))                            \
  X(cudaEventDestroy, int(pointer))                                                 \
  X(cudaStreamBeginCapture, int(pointer, int))                                      \
  X(cudaStreamEndCapture, int(pointer, pointer*))                                   \
  X(cudaStreamIsCapturing, int(pointer, int*))                                      \
  X(cudaGraphGetNodes, int(pointer, pointer*, size*))                               \
  X(cudaGraphInstantiate, int(pointer*, pointer, void*, void*, size))               \
  X(cudaGraphLaunch, int(pointer, pointer))                                         \
  X(cudaGraphExecDestroy, int(pointer))                                             \
  X(cudaGraphDestroy, int(pointer))                                                 \
  X(cudaGetDriverEntryPoint, int(const char*, pointer*, unsigned long long, void*)) \
  X(cudaGetDriverEntryPointByVersion, int(const char*, pointer*, unsigned, unsigned long long, void*))

#ifdef STATIC_RUNTIME
#define DECLARE(name, ...) extern "C" [[gnu::weak]] char name##_of_the_runtime __asm__(#name);
FUNCTIONS(DECLARE)
#endif

struct runtime {
#define MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  FUNCTIONS(MEMBER)

  explicit runtime([[maybe_unused]] const char* path) {
#ifdef STATIC_RUNTIME
#define FIND(name, ...) find(name, &name##_of_the_runtime);
#else
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(2);
    }
#define FIND(name, ...) find(name, dlsym(library, #name));
#endif
    FUNCTIONS(FIND)
  }

 private:
  template <typename Function>
  static void find(Function& function, void* address) {
    std::memcpy(&function, &address, sizeof address);
  }
};

constexpr int to_device = 1;
constexpr int to_host = 2;
constexpr int within = 3;
constexpr int relaxed = 2;

#define SHOW(...) std::printf("%s: %d\n", #__VA_ARGS__, static_cast<int>(rt.__VA_ARGS__))

bool holds(const void* block, unsigned char value, size bytes) {
  const auto* at = static_cast<const unsigned char*>(block);
  return std::all_of(at, at + bytes, [&](unsigned char each) { return each == value; });
}

// What a block of the device holds, by a copy.
bool device_holds(const runtime& rt, pointer block, unsigned char value, size bytes) {
  std::vector<unsigned char> copy(bytes);
  if (rt.cudaMemcpy(copy.data(), block, bytes, to_host) != 0) return false;
  return holds(copy.data(), value, bytes);
}

void show_kind(const runtime& rt, const char* what, const void* block) {
  std::uint64_t words[16] = {};  // cudaPointerAttributes: type, device, two pointers, reserved from 13.0 on
  const int code = rt.cudaPointerGetAttributes(words, block);
  int head[2];
  std::memcpy(head, words, sizeof head);
  std::printf("%s: attributes %d, type %d, device %d, %d %d\n", what, code, head[0], head[1], words[1] != 0,
              words[2] != 0);
}

void show_device(const runtime& rt) {
  int version = 0;
  int count = 0;
  int now = -1;
  SHOW(cudaRuntimeGetVersion(&version));
  SHOW(cudaGetDeviceCount(&count));
  SHOW(cudaSetDevice(0));
  SHOW(cudaGetDevice(&now));
  int pools = -1;
  SHOW(cudaDeviceGetAttribute(&pools, 115, 0));
  std::printf("version %d, %d devices, device %d, pools %d\n", version, count, now, pools);
  std::vector<std::uint64_t> properties(2048);
  const auto ask = rt.cudaGetDeviceProperties_v2 ? rt.cudaGetDeviceProperties_v2 : rt.cudaGetDeviceProperties;
  const int code = ask == nullptr ? -1 : ask(properties.data(), 0);
  size free = 0;
  size total = 0;
  SHOW(cudaMemGetInfo(&free, &total));
  std::printf("properties %d, total as told there %d, free is less %d\n", code, properties[36] == total,
              free < total);
}

void plain_memory(const runtime& rt) {
  pointer none = &none;
  SHOW(cudaMalloc(&none, 0));
  std::printf("nothing: %d\n", none == nullptr);
  SHOW(cudaFree(nullptr));
  SHOW(cudaMalloc(nullptr, 100));
  SHOW(cudaGetLastError());
  std::vector<pointer> blocks;
  for (const size bytes : {size{1}, size{1000}, size{4096}, size{70'000}, size{1} << 20, size{9'000'001}}) {
    pointer block = nullptr;
    const int code = rt.cudaMalloc(&block, bytes);
    const bool aligned = reinterpret_cast<std::uintptr_t>(block) % 256 == 0;
    const int filled = rt.cudaMemset(block, static_cast<int>(bytes % 251), bytes);
    blocks.push_back(block);
    std::printf("%zu bytes: %d, aligned %d, filled %d\n", bytes, code, aligned, filled);
  }
  std::vector<unsigned char> host(70'000, 9);
  SHOW(cudaMemcpy(blocks[3], host.data(), host.size(), to_device));
  SHOW(cudaMemcpy(blocks[4], blocks[3], host.size(), within));
  std::printf("copied: %d, behind it: %d\n", device_holds(rt, blocks[4], 9, host.size()),
              device_holds(rt, static_cast<char*>(blocks[4]) + 70'000, (1 << 20) % 251, (1 << 20) - 70'000));
  show_kind(rt, "device", blocks[3]);
  show_kind(rt, "interior", static_cast<char*>(blocks[3]) + 333);
  show_kind(rt, "host", host.data());
  char handle[64];
  SHOW(cudaIpcGetMemHandle(handle, blocks[5]));
  SHOW(cudaFree(static_cast<char*>(blocks[3]) + 512));
  SHOW(cudaPeekAtLastError());
  SHOW(cudaGetLastError());
  for (pointer block : blocks) SHOW(cudaFree(block));
  SHOW(cudaFree(blocks[0]));
  std::printf("%s\n", rt.cudaGetErrorName(rt.cudaGetLastError()));
  pointer huge = nullptr;
  SHOW(cudaMalloc(&huge, size{1} << 50));
  SHOW(cudaGetLastError());
  SHOW(cudaGetLastError());
  size before = 0;
  size after = 0;
  size total = 0;
  rt.cudaMemGetInfo(&before, &total);
  SHOW(cudaMalloc(&huge, 256 << 20));
  rt.cudaMemGetInfo(&after, &total);
  std::printf("free went down: %d\n", before - after >= (256u << 20));
  SHOW(cudaFree(huge));
  rt.cudaMemGetInfo(&after, &total);
  std::printf("free is back: %d\n", before == after);
}

void host_memory(const runtime& rt) {
  pointer pinned = nullptr;
  pointer mapped = nullptr;
  pointer managed = nullptr;
  pointer seen = nullptr;
  unsigned flags = 99;
  SHOW(cudaMallocHost(&pinned, 100'000));
  SHOW(cudaHostAlloc(&mapped, 5000, 3));
  SHOW(cudaHostGetDevicePointer(&seen, mapped, 0));
  SHOW(cudaHostGetFlags(&flags, mapped));
  std::printf("same address: %d, flags %u\n", seen == mapped, flags);
  SHOW(cudaMallocManaged(&managed, 100'000, 1));
  std::memset(pinned, 3, 100'000);
  SHOW(cudaMemcpy(managed, pinned, 100'000, 4));
  SHOW(cudaDeviceSynchronize());
  std::printf("managed: %d\n", holds(managed, 3, 100'000));
  show_kind(rt, "pinned", pinned);
  show_kind(rt, "managed", managed);
  SHOW(cudaFree(managed));
  SHOW(cudaFreeHost(mapped));
  SHOW(cudaFreeHost(pinned));
  SHOW(cudaFreeHost(pinned));
  SHOW(cudaGetLastError());
  pointer rows = nullptr;
  size pitch = 0;
  SHOW(cudaMallocPitch(&rows, &pitch, 1000, 20));
  SHOW(cudaMemset2D(rows, pitch, 5, 1000, 20));
  std::vector<unsigned char> copy(20'000);
  SHOW(cudaMemcpy2D(copy.data(), 1000, rows, pitch, 1000, 20, to_host));
  std::printf("pitch %zu, rows: %d\n", pitch, holds(copy.data(), 5, copy.size()));
  SHOW(cudaFree(rows));
}

void streams(const runtime& rt) {
  pointer first = nullptr;
  pointer second = nullptr;
  pointer event = nullptr;
  pointer end = nullptr;
  SHOW(cudaStreamCreate(&first));
  SHOW(cudaStreamCreateWithFlags(&second, 1));
  SHOW(cudaEventCreate(&event));
  SHOW(cudaEventCreate(&end));
  pointer a = nullptr;
  pointer b = nullptr;
  int wrong = 0;
  for (int round = 0; round < 100; ++round) {
    wrong += rt.cudaMalloc(&a, 100'000) != 0;
    wrong += rt.cudaMemsetAsync(a, round, 100'000, first) != 0;
    wrong += rt.cudaEventRecord(event, first) != 0;
    wrong += rt.cudaStreamWaitEvent(second, event, 0) != 0;
    wrong += rt.cudaMalloc(&b, 100'000) != 0;
    wrong += rt.cudaMemcpyAsync(b, a, 100'000, within, second) != 0;
    wrong += rt.cudaStreamSynchronize(second) != 0;
    wrong += !device_holds(rt, b, static_cast<unsigned char>(round), 100'000);
    wrong += rt.cudaFree(a) != 0;
    wrong += rt.cudaFree(b) != 0;
  }
  std::printf("streams: %d wrong\n", wrong);
  SHOW(cudaEventRecord(end, second));
  SHOW(cudaEventSynchronize(end));
  float time = -1;
  SHOW(cudaEventElapsedTime(&time, event, end));
  std::printf("time went on: %d\n", time >= 0);
  SHOW(cudaStreamQuery(first));
  SHOW(cudaEventDestroy(event));
  SHOW(cudaEventDestroy(end));
  SHOW(cudaStreamDestroy(first));
  SHOW(cudaStreamDestroy(second));
}

void pools(const runtime& rt) {
  if (rt.cudaMallocAsync == nullptr) return;
  pointer stream = nullptr;
  SHOW(cudaStreamCreateWithFlags(&stream, 1));
  int wrong = 0;
  for (int round = 0; round < 200; ++round) {
    pointer block = nullptr;
    pointer const on = round % 3 == 0 ? nullptr : stream;
    const size bytes = 1000 + 7000 * static_cast<size>(round % 50);
    wrong += rt.cudaMallocAsync(&block, bytes, on) != 0;
    wrong += rt.cudaMemsetAsync(block, round, bytes, on) != 0;
    wrong += rt.cudaStreamSynchronize(on) != 0;
    wrong += !device_holds(rt, block, static_cast<unsigned char>(round), bytes);
    wrong += (round % 5 == 0 ? rt.cudaFree(block) : rt.cudaFreeAsync(block, on)) != 0;
  }
  std::printf("async: %d wrong\n", wrong);
  pointer ours = nullptr;
  pointer now = nullptr;
  SHOW(cudaDeviceGetDefaultMemPool(&ours, 0));
  SHOW(cudaDeviceGetMemPool(&now, 0));
  std::uint64_t threshold = 64 << 20;
  SHOW(cudaMemPoolSetAttribute(ours, 4, &threshold));
  threshold = 0;
  SHOW(cudaMemPoolGetAttribute(ours, 4, &threshold));
  std::printf("the same pool %d, threshold %llu\n", ours == now, static_cast<unsigned long long>(threshold));
  SHOW(cudaMemPoolTrimTo(ours, 0));
  int properties[32] = {1, 0, 1, 0};  // pinned, no handle type, the device, its number
  pointer own = nullptr;
  pointer block = nullptr;
  SHOW(cudaMemPoolCreate(&own, properties));
  SHOW(cudaMallocFromPoolAsync(&block, 1 << 20, own, stream));
  SHOW(cudaMemsetAsync(block, 8, 1 << 20, stream));
  SHOW(cudaStreamSynchronize(stream));
  std::printf("from a pool: %d\n", device_holds(rt, block, 8, 1 << 20));
  SHOW(cudaFreeAsync(block, stream));
  SHOW(cudaFreeAsync(block, stream));
  SHOW(cudaGetLastError());
  SHOW(cudaFreeAsync(nullptr, stream));
  SHOW(cudaGetLastError());
  SHOW(cudaStreamSynchronize(stream));
  SHOW(cudaMemPoolDestroy(own));
  pointer huge = nullptr;
  SHOW(cudaMallocAsync(&huge, size{1} << 50, stream));
  SHOW(cudaGetLastError());
  SHOW(cudaStreamDestroy(stream));
}

// With plain and stream-ordered allocations between begin and end, as the mode permits them.
void capture(const runtime& rt, int mode) {
  pointer stream = nullptr;
  pointer kept = nullptr;
  pointer made = nullptr;
  pointer graph = nullptr;
  pointer exec = nullptr;
  SHOW(cudaStreamCreateWithFlags(&stream, 1));
  SHOW(cudaMalloc(&kept, 100'000));
  SHOW(cudaMemset(kept, 1, 100'000));
  SHOW(cudaStreamBeginCapture(stream, mode));
  int capturing = -1;
  SHOW(cudaStreamIsCapturing(stream, &capturing));
  SHOW(cudaMemsetAsync(kept, 7, 100'000, stream));
  if (rt.cudaMallocAsync != nullptr) {
    SHOW(cudaMallocAsync(&made, 50'000, stream));
    SHOW(cudaMemcpyAsync(made, kept, 50'000, within, stream));
    SHOW(cudaMemcpyAsync(static_cast<char*>(kept) + 50'000, made, 50'000, within, stream));
    SHOW(cudaFreeAsync(made, stream));
  }
  pointer beside = nullptr;
  if (mode == relaxed) {
    SHOW(cudaMalloc(&beside, 5000));
    SHOW(cudaFree(beside));
  }
  SHOW(cudaStreamEndCapture(stream, &graph));
  size nodes = 0;
  SHOW(cudaGraphGetNodes(graph, nullptr, &nodes));
  std::printf("mode %d: capturing %d, %zu nodes\n", mode, capturing, nodes);
  SHOW(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int round = 0; round < 3; ++round) {
    SHOW(cudaMemset(kept, 1, 100'000));
    SHOW(cudaDeviceSynchronize());  // the stream does not wait for the default one
    SHOW(cudaGraphLaunch(exec, stream));
    SHOW(cudaStreamSynchronize(stream));
    std::printf("replayed: %d\n", device_holds(rt, kept, 7, 100'000));
  }
  SHOW(cudaGraphExecDestroy(exec));
  SHOW(cudaGraphDestroy(graph));
  SHOW(cudaFree(kept));
  SHOW(cudaStreamDestroy(stream));
}

// cudaMalloc by a thread whose stream captures in a strict mode is refused, and the capture is lost.
void refused_capture(const runtime& rt) {
  pointer stream = nullptr;
  pointer block = nullptr;
  pointer graph = nullptr;
  SHOW(cudaStreamCreateWithFlags(&stream, 1));
  SHOW(cudaStreamBeginCapture(stream, 0));
  SHOW(cudaMalloc(&block, 5000));
  SHOW(cudaStreamEndCapture(stream, &graph));
  SHOW(cudaGetLastError());
  SHOW(cudaStreamDestroy(stream));
}

void driver_by_the_runtime(const runtime& rt) {
  pointer allocate = nullptr;
  pointer release = nullptr;
  int found[4] = {-1, -1};
  if (rt.cudaGetDriverEntryPointByVersion != nullptr) {
    SHOW(cudaGetDriverEntryPointByVersion("cuMemAlloc", &allocate, 12000, 0, &found[0]));
    SHOW(cudaGetDriverEntryPointByVersion("cuMemFree", &release, 12000, 0, &found[1]));
  } else if (rt.cudaGetDriverEntryPoint != nullptr) {
    SHOW(cudaGetDriverEntryPoint("cuMemAlloc", &allocate, 0, &found[0]));
    SHOW(cudaGetDriverEntryPoint("cuMemFree", &release, 0, &found[1]));
  }
  if (allocate == nullptr || release == nullptr) return;
  std::uint64_t block = 0;
  const int code = reinterpret_cast<int (*)(std::uint64_t*, size)>(allocate)(&block, 123'456);
  const int freed = reinterpret_cast<int (*)(std::uint64_t)>(release)(block);
  std::printf("by the driver: %d %d\n", code, freed);
}

void threads(const runtime& rt) {
  int wrong[4] = {};
  std::vector<std::thread> all;
  for (int number = 0; number < 4; ++number) {
    all.emplace_back([&rt, &mine = wrong[number], number] {
      for (int round = 0; round < 100; ++round) {
        pointer block = nullptr;
        const size bytes = 500 + 3000 * static_cast<size>((round + number) % 20);
        mine += rt.cudaMalloc(&block, bytes) != 0;
        mine += rt.cudaMemset(block, round, bytes) != 0;
        mine += !device_holds(rt, block, static_cast<unsigned char>(round), bytes);
        mine += rt.cudaFree(block) != 0;
      }
    });
  }
  for (std::thread& each : all) each.join();
  std::printf("threads: %d %d %d %d wrong\n", wrong[0], wrong[1], wrong[2], wrong[3]);
}

}  // namespace

int main(int count, char** arguments) {
  const runtime rt(count > 1 ? arguments[1] : "libcudart.so");
  show_device(rt);
  for (int life = 0; life < 2; ++life) {
    plain_memory(rt);
    host_memory(rt);
    streams(rt);
    pools(rt);
    for (int mode = 0; mode <= relaxed; ++mode) capture(rt, mode);
    refused_capture(rt);
    driver_by_the_runtime(rt);
    threads(rt);
    SHOW(cudaDeviceReset());
  }
}
