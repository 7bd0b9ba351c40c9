// Runs into a limit by one route after the other: fills the device with one kind of memory until it is
// refused, prints how many MiB fitted and the code, gives all back, and goes on with the next kind. What the
// device is said to have comes first. Run with and without a limit by the integration tests. One thread.
#include <cuda.h>

#include <string>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t step = 2 * mib;

template <typename Take, typename Give>
void fill(const char* name, Take take, Give give) {
  using handle = decltype(take().second);
  std::vector<handle> all;
  int code = 0;
  for (;;) {
    const auto [result, taken] = take();
    code = static_cast<int>(result);
    if (code != 0) break;
    all.push_back(taken);
  }
  std::printf("%s: %zu MiB, then code %d\n", name, all.size() * step / mib, code);
  for (const handle one : all) give(one);
}

void tell() {
  std::size_t free = 0, total = 0, of_device = 0;
  cudaDeviceProp properties{};
  REQUIRE(cudaMemGetInfo(&free, &total));
  REQUIRE(cuDeviceTotalMem(&of_device, 0));
  REQUIRE(cudaGetDeviceProperties(&properties, 0));
  std::printf("free %zu MiB, total %zu MiB, device %zu MiB, properties %zu MiB\n", free / mib, total / mib,
              of_device / mib, properties.totalGlobalMem / mib);
}

void routed() {
  fill(
      "cudaMalloc",
      [] {
        void* block = nullptr;
        const cudaError_t code = counted_malloc(&block, step);
        REQUIRE_CODE(code != cudaSuccess && block != nullptr, false);
        return std::pair{code, block};
      },
      [](void* block) { REQUIRE(counted_free(block)); });
  REQUIRE_CODE(cudaGetLastError(), cudaErrorMemoryAllocation);
}

void virtual_memory() {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  fill(
      "cuMemCreate",
      [&] {
        CUmemGenericAllocationHandle handle = 0;
        const CUresult code = cuMemCreate(&handle, step, &wanted, 0);
        return std::pair{code, handle};
      },
      [](CUmemGenericAllocationHandle handle) { REQUIRE(cuMemRelease(handle)); });
}

void arrays() {
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = 1024;
  shape.Height = 512;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  fill(
      "cuArrayCreate",
      [&] {
        CUarray array = nullptr;
        const CUresult code = cuArrayCreate(&array, &shape);
        return std::pair{code, array};
      },
      [](CUarray array) { REQUIRE(cuArrayDestroy(array)); });
}

// Takes no memory until some is mapped.
void sparse_array() {
  int supported = 0;
  REQUIRE(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0));
  if (supported == 0) return;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 8192;
  shape.Height = 8192;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array = nullptr;
  REQUIRE(cuArray3DCreate(&array, &shape));
  std::printf("a sparse array of 256 MiB\n");
  REQUIRE(cuArrayDestroy(array));
}

void pitched() {
  fill(
      "cuMemAllocPitch",
      [] {
        CUdeviceptr block = 0;
        std::size_t pitch = 0;
        const CUresult code = cuMemAllocPitch(&block, &pitch, 2048, 1024, 4);
        return std::pair{code, block};
      },
      [](CUdeviceptr block) { REQUIRE(cuMemFree(block)); });
}

void pools() {
  CUmemPoolProps wanted{};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  REQUIRE(cuMemPoolCreate(&pool, &wanted));
  fill(
      "cuMemAllocFromPoolAsync",
      [&] {
        CUdeviceptr block = 0;
        const CUresult code = cuMemAllocFromPoolAsync(&block, step, pool, nullptr);
        return std::pair{code, block};
      },
      [](CUdeviceptr block) { REQUIRE(cuMemFreeAsync(block, nullptr)); });
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cuMemPoolDestroy(pool));
}

void managed() {
  fill(
      "cuMemAllocManaged",
      [] {
        CUdeviceptr block = 0;
        const CUresult code = cuMemAllocManaged(&block, step, CU_MEM_ATTACH_GLOBAL);
        return std::pair{code, block};
      },
      [](CUdeviceptr block) { REQUIRE(cuMemFree(block)); });
}

// Half routed, half not, or by another route: the limit is on their sum.
void mixed() {
  void* half = nullptr;
  REQUIRE(counted_malloc(&half, 32 * mib));
  virtual_memory();
  managed();
  REQUIRE(counted_free(half));
}

// Takes so many MiB in blocks of 8, writes to all, and says of what kind the driver takes them.
void spill(std::size_t wanted) {
  std::vector<void*> blocks;
  std::size_t managed_blocks = 0;
  checksum sum;
  for (std::size_t taken = 0; taken < wanted; taken += 8) {
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, 8 * mib));
    unsigned is_managed = 0;
    REQUIRE(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  reinterpret_cast<CUdeviceptr>(block)));
    managed_blocks += is_managed;
    REQUIRE(cudaMemset(block, static_cast<int>(blocks.size() + 1), 8 * mib));
    blocks.push_back(block);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    verify_fill(blocks[i], 8 * mib, static_cast<unsigned char>(i + 1), sum);
  }
  std::printf("%zu blocks of 8 MiB, %zu managed, sum %llx\n", blocks.size(), managed_blocks,
              static_cast<unsigned long long>(sum.value()));
  for (void* block : blocks) REQUIRE(counted_free(block));
}

// More than any limit, of a pool, on streams on which the driver allocates nothing.
void refusals() {
  CUmemoryPool pool = nullptr;
  CUcontext current = nullptr;
  CUdeviceptr block = 0;
  REQUIRE(cuDeviceGetDefaultMemPool(&pool, 0));
  REQUIRE(cuCtxGetCurrent(&current));
  const auto on = [&](CUstream stream) {
    return static_cast<int>(cuMemAllocFromPoolAsync(&block, std::size_t{1} << 44, pool, stream));
  };
  std::printf("on a stream: %d\n", on(nullptr));
  std::printf("on none: %d\n", on(reinterpret_cast<CUstream>(0x5000)));
  REQUIRE(cuCtxSetCurrent(nullptr));
  for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
    std::printf("without a context: %d\n", on(stream));
  REQUIRE(cuCtxSetCurrent(current));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  if (what == "properties") {
    cudaDeviceProp properties{};
    REQUIRE(cudaGetDeviceProperties(&properties, 0));
    std::printf("properties %zu MiB\n", properties.totalGlobalMem / mib);
    return 0;
  }
  REQUIRE(cudaSetDevice(0));
  REQUIRE(cudaFree(nullptr));
  if (what == "spill") {
    spill(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 96);
  } else if (what == "routed") {
    routed();
  } else if (what == "refusals") {
    refusals();
  } else {
    tell();
    routed();
    virtual_memory();
    arrays();
    sparse_array();
    pitched();
    pools();
    managed();
    mixed();
    routed();
    tell();
  }
  counts.print();
}
