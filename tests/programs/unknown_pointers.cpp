// Frees of what no allocation call of this list handed out, or another one did: memory of an explicit pool,
// of a graph, managed, pinned and registered memory, mapped virtual memory, a pitched block; by cudaFree,
// cudaFreeAsync, cudaFreeHost and cuMemFree. Prints the codes. Run plain and preloaded by the integration and
// GPU tests. One thread.
#include <cuda.h>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void show(const char* what, int code) {
  const int last = cudaGetLastError();
  std::printf("%-46s %d, last error %d\n", what, code, last);
}

void pool_memory() {
  cudaMemPool_t pool = nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  REQUIRE(cudaMemPoolCreate(&pool, &properties));
  void* block = nullptr;
  REQUIRE(cudaMallocFromPoolAsync(&block, 100'000, pool, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("cudaFree of a pool's block", cudaFree(block));
  show("again", cudaFree(block));
  REQUIRE(cudaMallocFromPoolAsync(&block, 100'000, pool, nullptr));
  show("cudaFreeAsync of a pool's block", cudaFreeAsync(block, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaMemPoolDestroy(pool));
}

void graph_memory() {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  void* block = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  REQUIRE(cudaMallocAsync(&block, 1 << 20, stream));
  REQUIRE(cudaMemsetAsync(block, 3, 1 << 20, stream));
  REQUIRE(cudaStreamEndCapture(stream, &graph));
  REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  REQUIRE(cudaGraphLaunch(executable, stream));
  REQUIRE(cudaStreamSynchronize(stream));
  checksum sum;
  verify_fill(block, 1 << 20, 3, sum);
  show("cudaFree of a graph's block", cudaFree(block));
  REQUIRE(cudaGraphExecDestroy(executable));
  REQUIRE(cudaGraphDestroy(graph));
  REQUIRE(cudaStreamDestroy(stream));
}

void other_kinds() {
  void* block = nullptr;
  std::size_t pitch = 0;
  REQUIRE(cudaMallocManaged(&block, 10'000, cudaMemAttachGlobal));
  show("cudaFree(managed)", cudaFree(block));
  REQUIRE(cudaMallocPitch(&block, &pitch, 1000, 30));
  show("cudaFree(pitched)", cudaFree(block));
  REQUIRE(cudaMallocHost(&block, 10'000));
  show("cudaFree(pinned)", cudaFree(block));
  show("cudaFreeHost(pinned)", cudaFreeHost(block));
  show("cudaFreeHost again", cudaFreeHost(block));
  static char registered[1 << 16];
  REQUIRE(cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
  show("cudaFree(registered)", cudaFree(registered));
  REQUIRE(cudaHostUnregister(registered));
  REQUIRE(cudaMalloc(&block, 4096));
  show("cudaFreeHost(device)", cudaFreeHost(block));
  show("cudaFree(device)", cudaFree(block));
}

void mapped_memory() {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::size_t bytes = 0;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuMemGetAllocationGranularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  REQUIRE(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  REQUIRE(cuMemCreate(&handle, bytes, &wanted, 0));
  REQUIRE(cuMemMap(address, bytes, 0, handle, 0));
  show("cuMemFree(mapped)", cuMemFree(address));
  show("cudaFree(mapped)", cudaFree(reinterpret_cast<void*>(address)));
  REQUIRE(cuMemUnmap(address, bytes));
  REQUIRE(cuMemRelease(handle));
  show("cuMemFree(reserved)", cuMemFree(address));
  REQUIRE(cuMemAddressFree(address, bytes));
}

}  // namespace

// Natively an allocation that is gone is nobody's, whichever call asks.
void freed_memory() {
  void *gone = nullptr, *kept = nullptr, *managed = nullptr;
  REQUIRE(cudaMalloc(&gone, 1 << 20));
  REQUIRE(cudaMalloc(&kept, 1 << 20));
  REQUIRE(cudaMallocManaged(&managed, 1 << 20, cudaMemAttachGlobal));
  REQUIRE(cudaFree(gone));
  REQUIRE(cudaFree(managed));
  auto const address = reinterpret_cast<CUdeviceptr>(gone);
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                 CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  unsigned long long told[6] = {};
  void* places[6] = {&told[0], &told[1], &told[2], &told[3], &told[4], &told[5]};
  std::printf("attributes of freed memory: %d,",
              static_cast<int>(cuPointerGetAttributes(6, asked, places, address)));
  for (unsigned long long each : told) std::printf(" %llx", each);
  cudaPointerAttributes of_runtime{};
  std::printf(", of the runtime: %d,", static_cast<int>(cudaPointerGetAttributes(&of_runtime, gone)));
  std::printf(" type %d\n", static_cast<int>(of_runtime.type));
  CUipcMemHandle shared{};
  unsigned on = 1;
  show("cuIpcGetMemHandle of freed memory", cuIpcGetMemHandle(&shared, address));
  show("cuPointerSetAttribute of it", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  CUmemGenericAllocationHandle handle = 0;
  show("cuMemRetainAllocationHandle of it", cuMemRetainAllocationHandle(&handle, gone));
  show("the same of a block", cuMemRetainAllocationHandle(&handle, kept));
  show("cudaMallocManaged of all bytes there are",
       cudaMallocManaged(&managed, ~std::size_t{0}, cudaMemAttachGlobal));
  REQUIRE(cudaFree(kept));
}

int main() {
  REQUIRE(cudaFree(nullptr));
  pool_memory();
  graph_memory();
  other_kinds();
  mapped_memory();
  freed_memory();
}
