// tests/gpu/freed_before_work.cu on the simulated CUDA: memory that was freed and is done serves the next
// request although work has begun since that does not end before. Argument: `order`, freed in the order of a
// stream that is done, `blocking`, `legacy` or `per_thread`, of such a stream, or `plain`, by cuMemFree
// before the context is. Prints each request's code, whether it came at once and whether the work still ran,
// then whether a trim of the default pool waited for it. One thread.
#include <cuda.h>

#include <chrono>
#include <string_view>

#include "tests/programs/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;
using namespace std::chrono_literals;

constexpr std::size_t mib = std::size_t{1} << 20, all = 6000 * mib, asked = 4000 * mib;
constexpr unsigned long long endless_ns = 3'600'000'000'000;

CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream made = nullptr;
  REQUIRE(cuStreamCreate(&made, flags));
  return made;
}
CUstream freeing_stream(std::string_view how) {
  if (how == "legacy") return CU_STREAM_LEGACY;
  if (how == "per_thread") return CU_STREAM_PER_THREAD;
  return make_stream(how == "blocking" ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
}

class freed_memory {
 public:
  explicit freed_memory(std::string_view how) : in_order_(how != "plain"), freeing_(freeing_stream(how)) {
    REQUIRE(cuMemAlloc(&kept_, 4096));
  }

  template <typename Request>
  void ask(char const* name, Request&& request) {
    free_all();
    simulated_access const access{kept_, 4096, 1};
    REQUIRE(simulated_control::launch(busy_, &access, 1, endless_ns));
    auto const begin = std::chrono::steady_clock::now();
    int const code = request();
    bool const at_once = std::chrono::steady_clock::now() - begin < 5s;
    std::printf("%s: code %d, %s, the work %s\n", name, code, at_once ? "at once" : "late",
                cuStreamQuery(busy_) == CUDA_ERROR_NOT_READY ? "runs" : "is over");
    REQUIRE(cuCtxSynchronize());
  }

 private:
  void free_all() {
    CUdeviceptr block = 0;
    REQUIRE(in_order_ ? cuMemAllocAsync(&block, all, freeing_) : cuMemAlloc(&block, all));
    REQUIRE(cuMemsetD8Async(block, 1, 4096, freeing_));
    REQUIRE(in_order_ ? cuMemFreeAsync(block, freeing_) : cuMemFree(block));
    REQUIRE(in_order_ ? cuStreamSynchronize(freeing_) : cuCtxSynchronize());
  }

  bool const in_order_;
  CUdeviceptr kept_ = 0;
  CUstream const busy_ = make_stream(), freeing_;
};

}  // namespace

int main(int argc, char** argv) {
  CUcontext context = nullptr;
  REQUIRE(cuInit(0));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0));
  REQUIRE(cuCtxSetCurrent(context));
  freed_memory memory(argc > 1 ? argv[1] : "plain");
  CUstream const asking = make_stream();
  CUdeviceptr block = 0;
  memory.ask("cuMemAllocAsync", [&] {
    int const code = cuMemAllocAsync(&block, asked, asking);
    REQUIRE(cuMemsetD8Async(block, 1, 4096, asking));
    REQUIRE(cuStreamSynchronize(asking));
    return code;
  });
  REQUIRE(cuMemFreeAsync(block, asking));
  REQUIRE(cuStreamSynchronize(asking));
  memory.ask("cuMemAlloc", [&] { return cuMemAlloc(&block, asked); });
  REQUIRE(cuMemFree(block));
  memory.ask("cuMemAllocManaged", [&] { return cuMemAllocManaged(&block, asked, CU_MEM_ATTACH_GLOBAL); });
  REQUIRE(cuMemFree(block));
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  memory.ask("cuMemCreate", [&] { return cuMemCreate(&handle, asked, &wanted, 0); });
  REQUIRE(cuMemRelease(handle));
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR const texels{32'768, 32'000, CU_AD_FORMAT_FLOAT, 1};
  memory.ask("cuArrayCreate", [&] { return cuArrayCreate(&array, &texels); });
  REQUIRE(cuArrayDestroy(array));
  CUmemoryPool pool = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&pool, 0));
  memory.ask("cuMemPoolTrimTo", [&] { return cuMemPoolTrimTo(pool, 0); });
  // What takes memory of the device for itself: there is none but what was freed.
  std::size_t free = 0, total = 0;
  REQUIRE(cuMemGetInfo(&free, &total));
  REQUIRE(cuMemCreate(&handle, (free - all) / (2 * mib) * (2 * mib), &wanted, 0));
  CUcontext second = nullptr;
  memory.ask("cuCtxCreate", [&] {
    int const code = cuCtxCreate(&second, nullptr, 0, 0);
    REQUIRE(cuCtxSetCurrent(context));
    return code;
  });
  REQUIRE(cuMemRelease(handle));
  std::puts("done");
}
