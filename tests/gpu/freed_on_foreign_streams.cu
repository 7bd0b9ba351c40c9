// What the driver does with a free in the order of a stream that belongs to another context or device than
// the memory: whether it is taken, with which context current, and whether the call waits for a kernel of
// that stream, which may itself wait for the host. gpumem must neither refuse what the driver takes nor wait
// where it does not. The same of memory that is taken out of another device's pool. Argument: `contexts`, two
// of one device, or `devices`, two of them. Prints codes, yes and no.
#include <cstring>

#include "tests/gpu/beside_a_kernel.cuh"

namespace {

using namespace programs;

constexpr std::size_t bytes = std::size_t{64} << 20;

// Memory of one context, streams of another.
class stage {
 public:
  stage(CUcontext memory, CUcontext streams, const char* name)
      : memory_(memory), streams_(streams), name_(name) {
    REQUIRE(cuCtxSetCurrent(streams));
    at_ = new spinning;
    REQUIRE(cuCtxSetCurrent(memory));
    REQUIRE(cudaStreamCreateWithFlags(&home_, cudaStreamNonBlocking));
  }

  void ask_all() const {
    for (const bool pooled : {false, true}) {
      for (const bool at_home : {false, true}) {
        free_beside_nothing(pooled, at_home);
        free_beside_a_kernel(pooled, at_home, at_->busy);
      }
      // Stream 0 is that of the context that is current.
      free_beside_a_kernel(pooled, false, nullptr);
    }
    allocate();
  }

 private:
  CUdeviceptr block(bool pooled) const {
    REQUIRE(cuCtxSetCurrent(memory_));
    void* made = nullptr;
    if (pooled) {
      REQUIRE(cudaMallocAsync(&made, bytes, home_));
    } else {
      REQUIRE(cudaMalloc(&made, bytes));
    }
    REQUIRE(cudaMemsetAsync(made, 1, bytes, home_));
    REQUIRE(cudaStreamSynchronize(home_));
    return reinterpret_cast<CUdeviceptr>(made);
  }
  const char* describe(bool pooled, bool at_home) const {
    static char text[200];
    std::snprintf(text, sizeof text, "%s memory on a stream of %s%s", pooled ? "pooled" : "plain", name_,
                  at_home ? ", its own context current" : "");
    return text;
  }
  void give_anyway(CUdeviceptr block) const {
    REQUIRE(cuCtxSetCurrent(memory_));
    REQUIRE(cudaFree(reinterpret_cast<void*>(block)));
  }

  void free_beside_nothing(bool pooled, bool at_home) const {
    const CUdeviceptr given = block(pooled);
    REQUIRE(cuCtxSetCurrent(at_home ? memory_ : streams_));
    const CUresult code = cuMemFreeAsync(given, at_->own);
    std::printf("%s: code %d\n", describe(pooled, at_home), static_cast<int>(code));
    if (code != CUDA_SUCCESS) give_anyway(given);
    REQUIRE(cuCtxSetCurrent(streams_));
    REQUIRE(cudaStreamSynchronize(at_->own));
  }
  void free_beside_a_kernel(bool pooled, bool at_home, cudaStream_t on) const {
    const CUdeviceptr given = block(pooled);
    REQUIRE(cuCtxSetCurrent(streams_));
    *at_->flag = 0;
    wait_for<<<1, 1, 0, on>>>(at_->flag_there);
    char text[300];
    std::snprintf(text, sizeof text, "%s%s", describe(pooled, at_home), on == nullptr ? ", stream 0" : "");
    CUresult code = CUDA_ERROR_UNKNOWN;
    REQUIRE(cuCtxSetCurrent(at_home ? memory_ : streams_));
    at_->beside_it(
        text, [&] { code = cuMemFreeAsync(given, on); }, on);
    std::printf("%s: code %d\n", text, static_cast<int>(code));
    if (code != CUDA_SUCCESS) give_anyway(given);
  }
  // Out of the pool of the memory's device, in the order of a stream of the other one.
  void allocate() const {
    REQUIRE(cuCtxSetCurrent(memory_));
    CUdevice device = 0;
    CUmemoryPool pool = nullptr;
    REQUIRE(cuCtxGetDevice(&device));
    REQUIRE(cuDeviceGetDefaultMemPool(&pool, device));
    REQUIRE(cuCtxSetCurrent(streams_));
    CUdeviceptr made = 0;
    const CUresult code = cuMemAllocFromPoolAsync(&made, bytes, pool, at_->own);
    CUresult freed = CUDA_ERROR_UNKNOWN;
    if (code == CUDA_SUCCESS) freed = cuMemFreeAsync(made, at_->own);
    std::printf("taken out of its pool on a stream of %s: code %d, freed there: %d\n", name_,
                static_cast<int>(code), code == CUDA_SUCCESS ? static_cast<int>(freed) : 0);
    REQUIRE(cudaStreamSynchronize(at_->own));
  }

  CUcontext const memory_, streams_;
  const char* const name_;
  cudaStream_t home_ = nullptr;
  spinning* at_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  CUcontext const first = primary_context(0);
  if (argc < 2 || std::strcmp(argv[1], "contexts") == 0) {
    CUcontext made = nullptr;
    REQUIRE(cuCtxCreate(&made, nullptr, 0, 0));
    stage(first, made, "another context").ask_all();
    return 0;
  }
  if (devices < 2) {
    std::printf("SKIP needs two devices\n");
    return 77;
  }
  CUcontext const second = primary_context(1);
  stage(first, second, "another device").ask_all();
  give_access();
  stage(first, second, "another device with access").ask_all();
}
