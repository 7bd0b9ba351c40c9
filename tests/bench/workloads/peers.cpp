// The peers: cub's CachingDeviceAllocator where the toolkit's headers have it (BENCH_CUB), RMM's resources
// where its published wheels were given (BENCH_RMM). RMM's parameters are those of its own benchmarks: a pool
// of half the free memory, bins of 256 KiB to 4 MiB over it, the arena's default size. Called once at the
// start of a workload.
#include "tests/bench/workloads/allocator.hpp"

#ifdef BENCH_CUB
#include <cub/util_allocator.cuh>
#endif
#ifdef BENCH_RMM
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <rmm/cuda_device.hpp>
#include <rmm/error.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#endif

namespace bench {
namespace {

#ifdef BENCH_CUB
// Bins of all powers of two and no limit: with cub's own defaults blocks above 2 MiB are never cached.
class cub_caching final : public allocator {
 public:
  void* allocate(std::size_t bytes, cudaStream_t stream) override {
    void* block = nullptr;
    if (cache_.DeviceAllocate(&block, bytes, stream) != cudaSuccess) throw std::bad_alloc();
    return block;
  }
  void free(void* block, std::size_t, cudaStream_t) override { static_cast<void>(cache_.DeviceFree(block)); }

 private:
  cub::CachingDeviceAllocator cache_{2, 8, 33, cub::CachingDeviceAllocator::INVALID_SIZE, true};
};
#endif

#ifdef BENCH_RMM
using any_resource = cuda::mr::any_resource<cuda::mr::device_accessible>;

class rmm_resource final : public allocator {
 public:
  explicit rmm_resource(any_resource resource) : resource_(std::move(resource)), reference_(resource_) {}

  void* allocate(std::size_t bytes, cudaStream_t stream) override {
    return reference_.allocate(cuda::stream_ref(stream), bytes, alignment);
  }
  void free(void* block, std::size_t bytes, cudaStream_t stream) override {
    reference_.deallocate(cuda::stream_ref(stream), block, bytes, alignment);
  }

 private:
  static constexpr std::size_t alignment = 256;
  any_resource resource_;
  rmm::device_async_resource_ref reference_;
};

any_resource rmm_pool() {
  return rmm::mr::pool_memory_resource{rmm::mr::cuda_memory_resource{},
                                       rmm::percent_of_free_device_memory(50)};
}
#endif

}  // namespace

std::unique_ptr<allocator> make_peer([[maybe_unused]] const std::string& name) {
#ifdef BENCH_CUB
  if (name == "cub") return std::make_unique<cub_caching>();
#endif
#ifdef BENCH_RMM
  if (name == "rmm-pool") return std::make_unique<rmm_resource>(rmm_pool());
  if (name == "rmm-arena")
    return std::make_unique<rmm_resource>(rmm::mr::arena_memory_resource{rmm::mr::cuda_memory_resource{}});
  if (name == "rmm-binning")
    return std::make_unique<rmm_resource>(rmm::mr::binning_memory_resource{rmm_pool(), 18, 22});
  if (name == "rmm-cuda_async") return std::make_unique<rmm_resource>(rmm::mr::cuda_async_memory_resource{});
#endif
  return nullptr;
}

}  // namespace bench
