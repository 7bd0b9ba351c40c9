// What the driver takes device memory for by itself, right after the program has freed all of the device: a
// context, a module with a large variable, local memory of a kernel, its heap, larger stacks, a graph with
// memory of its own, launched or uploaded first, streams, page tables of registered memory and of mappings.
// Natively there is room; a library that keeps what was freed has to make it. Argument: one of context |
// primary | module | library | local | heap | stack | graph | upload | streams | events | register | map.
// Prints each call's code. One thread.
#include <cuda.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/gpu/kernels.cuh"

namespace {

using namespace programs;

constexpr std::size_t mib = 1u << 20;

void said(char const* call, int code) {
  std::printf("%s: %d\n", call, code);
}

// Takes all of the device in blocks of 32 MiB, which a pool keeps for a while, and what is left in smaller
// ones, and frees all.
void fill_and_free() {
  std::vector<void*> blocks;
  for (std::size_t bytes = 32 * mib; bytes >= 2 * mib; bytes /= 2) {
    void* block = nullptr;
    while (cudaMalloc(&block, bytes) == cudaSuccess) blocks.push_back(block);
    cudaGetLastError();
  }
  for (void* const block : blocks) REQUIRE(cudaFree(block));
}

// 24 KiB for each thread: several GiB of an H100.
__global__ void local(int* out, int at) {
  int mine[6 << 10];
  for (int i = 0; i < (6 << 10); ++i) mine[i] = i * at;
  *out = mine[(at * 977) % (6 << 10)];
}

__global__ void heap(void** out) {
  *out = malloc(512u << 20);
}

char const* const large_variable =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .b8 large[1073741824];\n.visible .entry nothing() { ret; }\n";

void graph(bool uploaded) {
  CUgraph made = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNode last = nullptr;
  CUgraphExec whole = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  wanted.bytesize = 2048 * mib;
  REQUIRE(cuGraphCreate(&made, 0));
  REQUIRE(cuGraphAddMemAllocNode(&node, made, nullptr, 0, &wanted));
  REQUIRE(cuGraphAddMemFreeNode(&last, made, &node, 1, wanted.dptr));
  said("cuGraphInstantiate", cuGraphInstantiateWithFlags(&whole, made, 0));
  if (whole != nullptr && uploaded) said("cuGraphUpload", cuGraphUpload(whole, nullptr));
  if (whole != nullptr) said("cuGraphLaunch", cuGraphLaunch(whole, nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  std::string const what = argc > 1 ? argv[1] : "";
  if (what ==
      "primary") {  // another device's memory is not this one's, so a context of the driver's API fills it
    REQUIRE(cuInit(0));
    CUcontext mine = nullptr;
    CUcontext primary = nullptr;
    REQUIRE(cuCtxCreate(&mine, nullptr, 0, 0));
    std::vector<CUdeviceptr> blocks;
    for (std::size_t bytes = 32 * mib; bytes >= 2 * mib; bytes /= 2) {
      CUdeviceptr block = 0;
      while (cuMemAlloc(&block, bytes) == CUDA_SUCCESS) blocks.push_back(block);
    }
    for (CUdeviceptr const block : blocks) REQUIRE(cuMemFree(block));
    said("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&primary, 0));
    said("cuCtxSetCurrent", cuCtxSetCurrent(primary));
    CUstream stream = nullptr;
    said("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
  }
  void* out = nullptr;
  REQUIRE(cudaMalloc(&out, 64));
  fill_and_free();
  if (what == "context") {
    CUcontext made = nullptr;
    said("cuCtxCreate", cuCtxCreate(&made, nullptr, 0, 0));
  } else if (what == "module") {
    CUmodule module = nullptr;
    said("cuModuleLoadData", cuModuleLoadData(&module, large_variable));
  } else if (what == "library") {
    CUlibrary library = nullptr;
    CUdeviceptr large = 0;
    std::size_t bytes = 0;
    said("cuLibraryLoadData",
         cuLibraryLoadData(&library, large_variable, nullptr, nullptr, 0, nullptr, nullptr, 0));
    if (library != nullptr) said("cuLibraryGetGlobal", cuLibraryGetGlobal(&large, &bytes, library, "large"));
  } else if (what == "local") {
    local<<<1024, 256>>>(static_cast<int*>(out), 3);
    said("launch", cudaGetLastError());
    said("cudaDeviceSynchronize", cudaDeviceSynchronize());
  } else if (what == "heap") {
    said("cudaDeviceSetLimit", cudaDeviceSetLimit(cudaLimitMallocHeapSize, 4096 * mib));
    heap<<<1, 1>>>(static_cast<void**>(out));
    said("launch", cudaGetLastError());
    said("cudaDeviceSynchronize", cudaDeviceSynchronize());
  } else if (what == "stack") {
    said("cudaDeviceSetLimit", cudaDeviceSetLimit(cudaLimitStackSize, 32 << 10));
    said("cudaDeviceSynchronize", cudaDeviceSynchronize());
  } else if (what == "upload") {
    graph(true);
    said("cudaDeviceSynchronize", cudaDeviceSynchronize());
  } else if (what == "graph") {
    graph(false);
    said("cudaDeviceSynchronize", cudaDeviceSynchronize());
  } else if (what == "streams") {
    int failed = 0;
    for (int i = 0; i < 400; ++i) {
      cudaStream_t stream = nullptr;
      failed += cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess;
      if (stream != nullptr) failed += cudaMemsetAsync(out, i, 64, stream) != cudaSuccess;
    }
    said("streams that failed", failed);
  } else if (what == "register") {
    constexpr std::size_t bytes = std::size_t{16} << 30;
    void* const host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED || madvise(host, bytes, MADV_NOHUGEPAGE) != 0) return 2;
    said("cudaHostRegister", cudaHostRegister(host, bytes, cudaHostRegisterDefault));
  } else if (what == "map") {
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA,
                           {0}};  // of the host: only its tables are the device's
    CUmemAccessDesc const access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    constexpr std::size_t bytes = std::size_t{16} << 30;
    said("cuMemCreate", cuMemCreate(&handle, bytes, &properties, 0));
    said("cuMemAddressReserve", cuMemAddressReserve(&at, bytes, 0, 0, 0));
    said("cuMemMap", cuMemMap(at, bytes, 0, handle, 0));
    said("cuMemSetAccess", cuMemSetAccess(at, bytes, &access, 1));
  } else if (what == "events") {
    int failed = 0;
    for (int i = 0; i < 20'000; ++i) {
      cudaEvent_t event = nullptr;
      failed += cudaEventCreate(&event) != cudaSuccess;
      if (event != nullptr) failed += cudaEventRecord(event) != cudaSuccess;
    }
    said("events that failed", failed);
  } else {
    return 2;
  }
}
