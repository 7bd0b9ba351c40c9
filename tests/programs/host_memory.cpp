// Page-locked host memory in all its forms: what the driver says of each block, of its inside and of its
// device address, and that a copy which is under way when its host block is freed gets what it was to get.
// Run plain and preloaded by the integration and GPU tests. One thread.
#include <cstring>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void describe(const char* what, void* block, std::size_t bytes) {
  for (const std::size_t at : {std::size_t{0}, bytes / 2}) {
    char* const address = static_cast<char*>(block) + at;
    unsigned flags = 0;
    const cudaError_t flags_code = cudaHostGetFlags(&flags, address);
    void* device = nullptr;
    const cudaError_t device_code = cudaHostGetDevicePointer(&device, address, 0);
    cudaPointerAttributes known{};
    REQUIRE(cudaPointerGetAttributes(&known, address));
    std::printf("%s + %zu: flags %d %#x, device address %d %s, type %d, device %d, same addresses %d%d\n",
                what, at, static_cast<int>(flags_code), flags, static_cast<int>(device_code),
                device == address ? "the same" : "another", static_cast<int>(known.type), known.device,
                known.hostPointer == address, known.devicePointer == address);
    cudaGetLastError();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
  const unsigned forms[] = {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped,
                            cudaHostAllocWriteCombined, cudaHostAllocPortable | cudaHostAllocMapped};
  for (int again = 0; again < 2; ++again) {
    void* block = nullptr;
    REQUIRE(cudaMallocHost(&block, 5000));
    describe("cudaMallocHost", block, 5000);
    REQUIRE(cudaFreeHost(block));
    for (const unsigned form : forms) {
      REQUIRE(cudaHostAlloc(&block, 70000, form));
      char what[40];
      std::snprintf(what, sizeof what, "cudaHostAlloc %#x", form);
      describe(what, block, 70000);
      REQUIRE(cudaFreeHost(block));
    }
  }
  void* const untouched = reinterpret_cast<void*>(0x5555);
  for (const unsigned form : {0x8u, 0x40u}) {
    void* refused = untouched;
    const int code = static_cast<int>(cudaHostAlloc(&refused, 5000, form));
    std::printf("flags %#x: %d, output %s\n", form, code,
                refused == untouched ? "untouched"
                : refused == nullptr ? "null"
                                     : "a block");
    cudaGetLastError();
  }

  constexpr std::size_t bytes = 8 << 20;
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* target = nullptr;
  REQUIRE(cudaMalloc(&target, bytes));
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto value = static_cast<unsigned char>(round % 100 + 1);
    void* from = nullptr;
    REQUIRE(cudaMallocHost(&from, bytes));
    std::memset(from, value, bytes);
    for (int copies = 0; copies < 4; ++copies)
      REQUIRE(cudaMemcpyAsync(target, from, bytes, cudaMemcpyHostToDevice, stream));
    REQUIRE(cudaFreeHost(from));
    void* next = nullptr;
    REQUIRE(cudaMallocHost(&next, bytes));
    std::memset(next, 0xee, bytes);
    std::vector<unsigned char> seen(bytes);
    REQUIRE(cudaMemcpyAsync(seen.data(), target, bytes, cudaMemcpyDeviceToHost, stream));
    REQUIRE(cudaStreamSynchronize(stream));
    for (std::size_t at = 0; at < bytes; at += 4096) wrong += seen[at] != value;
    REQUIRE(cudaFreeHost(next));
  }
  REQUIRE(cudaFree(target));
  std::printf("%d rounds, %d wrong bytes\n", rounds, wrong);
  return wrong == 0 ? 0 : 1;
}
