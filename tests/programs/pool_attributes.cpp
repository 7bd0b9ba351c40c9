// What a memory pool says of itself: reserved and used bytes of an explicit pool while it is used by
// cudaMallocFromPoolAsync and, made current, by cudaMallocAsync; its release threshold and trim. Programs
// with their own cudaMallocAsync backend read these. Run plain and preloaded by the integration and GPU
// tests. One thread.
#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void show(const char* what, cudaMemPool_t pool) {
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t reserved = 0;
  std::uint64_t threshold = 0;
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &used_high));
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  std::printf("%s: used %llu, at most %llu, reserved %llu, threshold %llu\n", what, (unsigned long long)used,
              (unsigned long long)used_high, (unsigned long long)reserved, (unsigned long long)threshold);
}

}  // namespace

int main() {
  cudaMemPool_t pool = nullptr;
  cudaMemPool_t before = nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  REQUIRE(cudaDeviceGetMemPool(&before, 0));
  REQUIRE(cudaMemPoolCreate(&pool, &properties));
  std::uint64_t threshold = 64 << 20;
  show("made", pool);
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  void* blocks[4] = {};
  for (void*& block : blocks) REQUIRE(cudaMallocFromPoolAsync(&block, 3 << 20, pool, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("four blocks", pool);
  for (void* block : blocks) REQUIRE(cudaFreeAsync(block, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("freed", pool);
  REQUIRE(cudaMemPoolTrimTo(pool, 0));
  show("trimmed", pool);
  REQUIRE(cudaDeviceSetMemPool(0, pool));
  for (void*& block : blocks) REQUIRE(cudaMallocAsync(&block, 5 << 20, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("four of cudaMallocAsync", pool);
  for (void* block : blocks) REQUIRE(cudaFreeAsync(block, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("freed", pool);
  REQUIRE(cudaDeviceSetMemPool(0, before));
  REQUIRE(cudaMemPoolDestroy(pool));
}
