// Whether calls that free memory of one device wait for a kernel of another one, which may itself be waiting
// for the host: plain memory, with and without access of the other device, in the order of a stream, host and
// managed memory. They do not (two H200s), so that gpumem gives memory back where the device
// of the memory has nothing to do. Prints yes and no.
#include "tests/gpu/beside_a_kernel.cuh"

namespace {

using namespace programs;

constexpr std::size_t bytes = std::size_t{64} << 20;

// The kernel runs on device 1, the calls are made with device 0 current.
template <typename Make, typename Free>
void ask(const spinning& at, const char* what, Make&& make, Free&& free) {
  REQUIRE(cudaSetDevice(0));
  auto* const block = make();
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaSetDevice(1));
  at.launch();
  REQUIRE(cudaSetDevice(0));
  at.beside_it(what, [&] { free(block); });
}

void* device_block() {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, bytes));
  return block;
}
void* written() {
  void* const block = device_block();
  REQUIRE(cudaMemset(block, 1, bytes));
  return block;
}

void ask_all(const spinning& at, cudaStream_t own, const char* access) {
  const auto name = [&](const char* what) {
    static char text[80];
    std::snprintf(text, sizeof text, "%s, %s", what, access);
    return text;
  };
  ask(
      at, name("cudaMalloc"), [] { return static_cast<int*>(nullptr); }, [](int*) { device_block(); });
  ask(at, name("cudaFree"), written, [](void* block) { REQUIRE(cudaFree(block)); });
  ask(at, name("cudaFreeAsync"), written, [&](void* block) {
    REQUIRE(cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(block), own));
    REQUIRE(cudaStreamSynchronize(own));
  });
  ask(
      at, name("cudaFreeHost"),
      [] {
        void* block = nullptr;
        REQUIRE(cudaMallocHost(&block, bytes));
        return block;
      },
      [](void* block) { REQUIRE(cudaFreeHost(block)); });
  ask(
      at, name("cudaFree of managed memory"),
      [] {
        void* block = nullptr;
        REQUIRE(cudaMallocManaged(&block, bytes));
        REQUIRE(cudaMemset(block, 1, bytes));
        return block;
      },
      [](void* block) { REQUIRE(cudaFree(block)); });
}

}  // namespace

int main() {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    std::printf("SKIP needs two devices\n");
    return 77;
  }
  REQUIRE(cudaSetDevice(0));
  cudaStream_t own = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  nothing<<<1, 1, 0, own>>>();
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaSetDevice(1));
  const spinning at;
  ask_all(at, own, "without access");
  REQUIRE(cudaSetDevice(0));
  REQUIRE(cudaDeviceEnablePeerAccess(1, 0));
  REQUIRE(cudaSetDevice(1));
  REQUIRE(cudaDeviceEnablePeerAccess(0, 0));
  ask_all(at, own, "with access");
}
