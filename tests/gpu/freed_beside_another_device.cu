// Whether calls that free memory of one device wait for a kernel of another one, or of another context of the
// same one, which may itself be waiting for the host: plain memory, with and without access of the other
// device, in the order of a stream, host memory of both kinds, also such as the other device has just read,
// and managed memory. gpumem gives memory back where the context of the memory has nothing to do. Prints yes
// and no only.
#include "tests/gpu/beside_a_kernel.cuh"

namespace {

using namespace programs;

constexpr std::size_t bytes = std::size_t{64} << 20;

__global__ void read(const volatile int* block) {
  (void)*block;
}

// Calls are made with one context current, beside a kernel of the other one.
class stage {
 public:
  stage(CUcontext calls, CUcontext kernel, const char* name) : calls_(calls), kernel_(kernel), name_(name) {
    REQUIRE(cuCtxSetCurrent(calls));
    REQUIRE(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking));
    nothing<<<1, 1, 0, own_>>>();
    REQUIRE(cudaDeviceSynchronize());
    REQUIRE(cuCtxSetCurrent(kernel));
    at_ = new spinning;
  }

  void ask_all() const {
    ask(
        "cudaMalloc", false, [] { return nullptr; }, [](void*) { device_block(); });
    ask("cudaFree", false, written, [](void* block) { REQUIRE(cudaFree(block)); });
    ask("cudaFreeAsync", false, written, [&](void* block) {
      REQUIRE(cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(block), own_));
      REQUIRE(cudaStreamSynchronize(own_));
    });
    const auto free_host = [](void* block) { REQUIRE(cudaFreeHost(block)); };
    ask(
        "cudaFreeHost", false, [] { return host_block(cudaHostAllocDefault); }, free_host);
    ask(
        "cudaFreeHost of portable memory", false, [] { return host_block(cudaHostAllocPortable); },
        free_host);
    ask(
        "cudaFreeHost of what it has read", true, [] { return host_block(cudaHostAllocPortable); },
        free_host);
    ask("cudaFree of managed memory", false, managed_block, [](void* block) { REQUIRE(cudaFree(block)); });
  }

 private:
  static void* device_block() {
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, bytes));
    return block;
  }
  static void* written() {
    void* const block = device_block();
    REQUIRE(cudaMemset(block, 1, bytes));
    return block;
  }
  static void* host_block(unsigned flags) {
    void* block = nullptr;
    REQUIRE(cudaHostAlloc(&block, bytes, flags));
    return block;
  }
  static void* managed_block() {
    void* block = nullptr;
    REQUIRE(cudaMallocManaged(&block, bytes));
    REQUIRE(cudaMemset(block, 1, bytes));
    return block;
  }

  template <typename Make, typename Free>
  void ask(const char* what, bool reads, Make&& make, Free&& free) const {
    REQUIRE(cuCtxSetCurrent(calls_));
    void* const block = make();
    REQUIRE(cudaDeviceSynchronize());
    REQUIRE(cuCtxSetCurrent(kernel_));
    if (reads) read<<<1, 1, 0, at_->busy>>>(static_cast<const int*>(block));
    REQUIRE(cudaStreamSynchronize(at_->busy));
    at_->launch();
    REQUIRE(cuCtxSetCurrent(calls_));
    char text[100];
    std::snprintf(text, sizeof text, "%s, %s", what, name_);
    at_->beside_it(text, [&] { free(block); });
  }

  CUcontext const calls_, kernel_;
  const char* const name_;
  cudaStream_t own_ = nullptr;
  spinning* at_ = nullptr;  // of the kernel's context
};

}  // namespace

int main() {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    std::printf("SKIP needs two devices\n");
    return 77;
  }
  CUcontext const second = primary_context(1);
  CUcontext const first = primary_context(0);
  CUcontext made = nullptr;
  REQUIRE(cuCtxCreate(&made, nullptr, 0, 0));
  stage(first, second, "another device").ask_all();
  give_access();
  stage(first, second, "another device with access").ask_all();
  stage(first, made, "another context").ask_all();
}
