// Stories about memory that a ledger gets wrong: ledger_stories STORY. Each is a program that CUDA allows;
// what it takes and gives back is noted for the simulated driver. Prints nothing of its own; exit code 3: a
// call failed. What is to be seen afterwards is in stories.py. One thread, but where the story is about
// several.
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/simulated_cuda/simulated.h"

namespace {

constexpr std::size_t mib = 1 << 20;

void must(CUresult code, int line, CUresult wanted = CUDA_SUCCESS) {
  if (code == wanted) return;
  std::fprintf(stderr, "line %d: code %d\n", line, static_cast<int>(code));
  std::_Exit(3);
}
#define MUST(call) must(call, __LINE__)
#define MUST_BE(wanted, call) must(call, __LINE__, wanted)

CUcontext primary(int device) {
  CUcontext context = nullptr;
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  return context;
}

CUdeviceptr noted(CUdeviceptr address, std::size_t bytes) {
  simulatedNoteAllocate(address, bytes, nullptr);
  return address;
}
CUdeviceptr take(std::size_t bytes) {
  CUdeviceptr address = 0;
  MUST(cuMemAlloc(&address, bytes));
  return noted(address, bytes);
}
CUdeviceptr take_managed(std::size_t bytes) {
  CUdeviceptr address = 0;
  MUST(cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL));
  return noted(address, bytes);
}
void give(CUdeviceptr address) {
  simulatedNoteFree(address, nullptr);
  MUST(cuMemFree(address));
}

// A reset takes along what is alive, twenty times over.
void resets() {
  for (int i = 0; i < 20; ++i) {
    primary(0);
    take(256 * mib);
    give(take(64 * mib));
    MUST(cuDevicePrimaryCtxReset(0));
  }
}

// Managed memory comes and goes; the driver is asked while it is there.
void managed() {
  primary(0);
  take(mib);
  CUdeviceptr const seen = take_managed(2048 * mib);
  take(64 * mib);  // grows, and looks how much is in use
  give(seen);
}

// Nothing is asked of the driver while the program takes and frees.
void slow_peak() {
  primary(0);
  std::vector<CUdeviceptr> all;
  for (int i = 0; i < 30; ++i) all.push_back(take(100 * mib));
  for (CUdeviceptr const each : all) give(each);
}

// One thread takes what the other frees, in waves of more and more, below a peak that neither alone has seen.
void peak_of_threads() {
  CUcontext const context = primary(0);
  std::vector<CUdeviceptr> all[2];
  for (std::size_t wave = 1; wave <= 12; ++wave) {
    std::thread([&, context] {
      MUST(cuCtxSetCurrent(context));
      for (std::size_t i = 0; i < 20 * wave; ++i) all[0].push_back(take(mib));
    }).join();
    for (std::size_t i = 0; i < 11 * wave; ++i) all[1].push_back(take(mib + 4096));
    for (auto& part : all) {
      for (CUdeviceptr const each : part) give(each);
      part.clear();
    }
  }
}

// A freed address is another thread's at once.
void race() {
  CUcontext const context = primary(0);
  std::vector<std::thread> team;
  for (int t = 0; t < 4; ++t) {
    team.emplace_back([context] {
      CUdeviceptr address = 0;
      MUST(cuCtxSetCurrent(context));
      for (int i = 0; i < 4000; ++i) {
        MUST(cuMemAllocManaged(&address, 4 * mib, CU_MEM_ATTACH_GLOBAL));
        MUST(cuMemFree(address));
      }
      take_managed(4 * mib);
    });
  }
  for (std::thread& each : team) each.join();
}

// Memory of device 1 while device 0 is current, in all ways that name a device but by the context.
void other_device() {
  CUcontext const first = primary(0), second = primary(1);
  CUstream stream = nullptr;
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  MUST(cuCtxSetCurrent(first));
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  CUmemoryPool pool = nullptr, usual = nullptr;
  MUST(cuMemPoolCreate(&pool, &properties));
  MUST(cuDeviceGetDefaultMemPool(&usual, 1));
  CUdeviceptr kept = 0, freed = 0;
  for (CUmemoryPool const from : {pool, usual}) {
    MUST(cuMemAllocFromPoolAsync(&kept, 32 * mib, from, stream));
    noted(kept, 32 * mib);
    MUST(cuMemAllocFromPoolAsync(&freed, 32 * mib, from, stream));
    give(noted(freed, 32 * mib));
  }
  MUST(cuMemAllocAsync(&kept, 16 * mib, stream));
  noted(kept, 16 * mib);
  CUmemAllocationProp where{};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  CUmemGenericAllocationHandle handle = 0;
  MUST(cuMemCreate(&handle, 8 * mib, &where, 0));
  MUST(cuCtxSetCurrent(second));
  take_managed(4 * mib);
}

// A free that is refused gives nothing back.
void refused_free() {
  primary(0);
  CUstream stream = nullptr;
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr const address = take_managed(32 * mib);
  MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  MUST_BE(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(address, stream));
  CUgraph graph = nullptr;
  MUST(cuStreamEndCapture(stream, &graph));
  MUST_BE(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, 2 * mib));
}

// What a capture asks for is a node of its graph: it has an address, and no memory before the graph runs.
void captured() {
  primary(0);
  CUstream stream = nullptr;
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  MUST(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr kept = 0, node = 0;
  MUST(cuMemAllocFromPoolAsync(&kept, 4 * mib, pool, stream));
  noted(kept, 4 * mib);
  MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  MUST(cuMemAllocFromPoolAsync(&node, 32 * mib, pool, stream));
  MUST(cuMemAllocAsync(&node, 32 * mib, stream));
  CUgraph graph = nullptr;
  MUST(cuStreamEndCapture(stream, &graph));
  MUST(cuGraphDestroy(graph));
}

// More than the device holds, three times.
void refused_requests() {
  primary(0);
  CUdeviceptr address = 0;
  for (int i = 0; i < 3; ++i) MUST_BE(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, 16384 * mib));
  give(take(mib));
}

}  // namespace

int main(int, char** argv) {
  std::map<std::string, std::function<void()>> const stories = {{"resets", resets},
                                                                {"managed", managed},
                                                                {"slow_peak", slow_peak},
                                                                {"peak_of_threads", peak_of_threads},
                                                                {"race", race},
                                                                {"other_device", other_device},
                                                                {"refused_free", refused_free},
                                                                {"captured", captured},
                                                                {"refused_requests", refused_requests}};
  MUST(cuInit(0));
  stories.at(argv[1])();
}
