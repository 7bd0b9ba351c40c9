// Every wrong or odd call a program may make, and the code it gets: zero sizes, null pointers, interior,
// made-up, host and already freed addresses, sizes that cannot be, crossed frees, frees after a reset, and
// the runtime's last error after each. The codes are the real driver's and are kept in
// tests/integration/programs/expected/bad_frees.txt. Run plain and preloaded by the integration and GPU
// tests. One thread.
#include <cuda.h>

#include "tests/programs/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;

void show(const char* what, int code) {
  const int last = static_cast<int>(cudaGetLastError());
  std::printf("%-44s %d, last error %d\n", what, code, last);
}

// The same for a wrong free, of which the driver hears once: a tool that watches it counts each
// refusal.
template <typename Free>
void show_wrong(const char* what, Free&& wrong) {
  const auto before = simulated_control::calls("cuMemFree_v2");
  const int code = static_cast<int>(wrong());
  const auto asked = simulated_control::calls("cuMemFree_v2") - before;
  show(what, code);
  if (asked > 1) std::printf("  asked the driver %llu times\n", asked);
}

void zero_and_null() {
  void* block = reinterpret_cast<void*>(0x5555);
  show("cudaMalloc(0)", cudaMalloc(&block, 0));
  std::printf("  gives %s\n", block == nullptr ? "null" : "something");
  show("cudaFree(null)", cudaFree(nullptr));
  show("cudaMalloc(null, 256)", cudaMalloc(nullptr, 256));
  CUdeviceptr address = 0x5555;
  show("cuMemAlloc(0)", cuMemAlloc(&address, 0));
  std::printf("  output %s\n", address == 0x5555 ? "untouched" : "changed");
  show("cuMemAlloc(null, 256)", cuMemAlloc(nullptr, 256));
  show("cuMemFree(0)", cuMemFree(0));
  void* ordered = nullptr;
  show("cudaMallocAsync(0)", cudaMallocAsync(&ordered, 0, nullptr));
  show("cuMemAllocAsync(0)", cuMemAllocAsync(&address, 0, nullptr));
}

void wrong_addresses() {
  void* block = nullptr;
  int on_the_stack = 0;
  REQUIRE(cudaMalloc(&block, 1 << 20));
  REQUIRE(cudaMemset(block, 0x3c, 1 << 20));
  show_wrong("cudaFree(interior)", [&] { return cudaFree(static_cast<char*>(block) + 4096); });
  show_wrong("cudaFree(interior, 1 byte)", [&] { return cudaFree(static_cast<char*>(block) + 1); });
  show_wrong("cudaFree(made up)", [&] { return cudaFree(reinterpret_cast<void*>(0x123456000)); });
  show_wrong("cudaFree(host)", [&] { return cudaFree(&on_the_stack); });
  show_wrong("cuMemFree(interior)", [&] { return cuMemFree(reinterpret_cast<CUdeviceptr>(block) + 512); });
  show_wrong("cuMemFree(made up)", [&] { return cuMemFree(0x123456000); });
  show_wrong("cuMemFree(host)", [&] { return cuMemFree(reinterpret_cast<CUdeviceptr>(&on_the_stack)); });
  checksum sum;
  verify_fill(block, 1 << 20, 0x3c, sum);
  show("cudaFree", cudaFree(block));
  show_wrong("cudaFree again", [&] { return cudaFree(block); });
  show_wrong("cuMemFree again", [&] { return cuMemFree(reinterpret_cast<CUdeviceptr>(block)); });
}

void too_big() {
  void* block = reinterpret_cast<void*>(0x5555);
  show("cudaMalloc(2^60)", cudaMalloc(&block, std::size_t{1} << 60));
  show("cudaMalloc(2^64 - 1)", cudaMalloc(&block, ~std::size_t{0}));
  CUdeviceptr address = 0x5555;
  show("cuMemAlloc(2^60)", cuMemAlloc(&address, std::size_t{1} << 60));
  std::printf("  output %s\n", address == 0x5555 ? "untouched" : "changed");
  show("cudaMallocAsync(2^60)", cudaMallocAsync(&block, std::size_t{1} << 60, nullptr));
  REQUIRE(cudaMalloc(&block, 4096));
  show("cudaFree after them", cudaFree(block));
}

void crossed() {
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, 4096, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("cudaFree(async block)", cudaFree(block));
  REQUIRE(cudaMalloc(&block, 4096));
  show("cudaFreeAsync(plain block)", cudaFreeAsync(block, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaMallocManaged(&block, 4096));
  show("cudaFreeAsync(managed block)", cudaFreeAsync(block, nullptr));
  show("cuMemFreeAsync(managed block)", cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(block), nullptr));
  show("cudaFree(managed block)", cudaFree(block));
  REQUIRE(cudaMallocHost(&block, 4096));
  show("cudaFreeAsync(host block)", cudaFreeAsync(block, nullptr));
  show("cudaFreeHost(host block)", cudaFreeHost(block));
}

void information() {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  show("cuMemGetInfo(null, null)", cuMemGetInfo(nullptr, nullptr));
  show("cuMemGetInfo(free, null)", cuMemGetInfo(&free_bytes, nullptr));
  show("cuMemGetInfo(null, total)", cuMemGetInfo(nullptr, &total));
  std::printf("  free is at most total: %d\n", free_bytes <= total);
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 10000));
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  show("cuMemGetAddressRange(interior)",
       cuMemGetAddressRange(&base, &bytes, reinterpret_cast<CUdeviceptr>(block) + 5000));
  std::printf("  the block: %d, its size: %d\n", base == reinterpret_cast<CUdeviceptr>(block),
              bytes == 10000);
  show("cuMemGetAddressRange(base only)",
       cuMemGetAddressRange(&base, nullptr, reinterpret_cast<CUdeviceptr>(block)));
  REQUIRE(cudaFree(block));
}

void after_reset() {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 4096));
  REQUIRE(cudaDeviceReset());
  show("cudaFree after cudaDeviceReset", cudaFree(block));
  REQUIRE(cudaMalloc(&block, 4096));
  show("cudaFree of a new block", cudaFree(block));
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  zero_and_null();
  wrong_addresses();
  too_big();
  crossed();
  information();
  after_reset();
}
