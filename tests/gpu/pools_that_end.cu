// Contexts that come and go with stream-ordered memory in use, which the program forgets, and with such as
// was freed behind work. Natively it lies in the device's default pool, which never ends. A chain over
// cuda_async has a pool of its own for each context, which must not end with memory in it: the driver
// (580.159) crashes at a later end of a pool where one was destroyed so and another context has ended since.
// Mode `driver` asks just that of the driver, without gpumem, and is expected to crash; nothing runs it by
// itself. Prints how many contexts there were.
#include <cuda.h>

#include <cstring>

#include "tests/gpu/beside_a_kernel.cuh"

namespace {

using namespace programs;

constexpr std::size_t bytes = std::size_t{8} << 20;
constexpr int rounds = 60;

// As programs that make contexts for each part of their work.
void contexts() {
  for (int i = 0; i < rounds; ++i) {
    CUcontext made = nullptr;
    CUstream stream = nullptr;
    CUdeviceptr kept = 0, freed = 0;
    REQUIRE(cuCtxCreate(&made, nullptr, 0, 0));
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE(cuMemAllocAsync(&kept, bytes, stream));
    REQUIRE(cuMemAllocAsync(&freed, bytes, stream));
    REQUIRE(cuMemsetD8Async(kept, 1, bytes, stream));
    REQUIRE(cuMemsetD8Async(freed, 1, bytes, stream));
    REQUIRE(cuMemFreeAsync(freed, stream));
    REQUIRE(cuCtxDestroy(made));
  }
}

void pools_of_the_driver() {
  const spinning at;
  CUcontext own = nullptr;
  REQUIRE(cuCtxGetCurrent(&own));
  for (int i = 0; i < rounds; ++i) {
    CUcontext other = nullptr;
    REQUIRE(cuCtxCreate(&other, nullptr, 0, 0));
    REQUIRE(cuCtxSetCurrent(own));
    REQUIRE(cuCtxDestroy(other));
    REQUIRE(cuCtxSetCurrent(own));
    CUmemPoolProps properties;
    std::memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool = nullptr;
    CUdeviceptr block = 0;
    REQUIRE(cuMemPoolCreate(&pool, &properties));
    REQUIRE(cuMemAllocFromPoolAsync(&block, bytes, pool, at.own));
    REQUIRE(cudaStreamSynchronize(at.own));
    at.launch();
    REQUIRE(cuMemFreeAsync(block, at.busy));
    REQUIRE(cuMemPoolDestroy(pool));
    *at.flag = 1;
    REQUIRE(cudaDeviceSynchronize());
  }
}

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(cuInit(0));
  if (argc > 1 && std::strcmp(argv[1], "driver") == 0) {
    REQUIRE(cudaFree(nullptr));
    pools_of_the_driver();
  } else {
    contexts();
  }
  std::printf("%d contexts came and went\n", rounds);
}
