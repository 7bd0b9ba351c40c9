// Faults of memory use, by argument: "leaks" allocates 100 blocks and keeps 37 of them, from 3 call sites: 20
// of 1000 bytes, 10 of 64 KiB, 7 of 1 MiB; "frees" frees a block twice, an address that is no block, and one
// in the middle of a block; "crossed" frees a block as the host's; "writes" writes 3 bytes behind the end of
// a block, the first 4 bytes behind it, frees it, and writes 1 byte behind another that it keeps, then waits
// for the device. Ends with code 0 in every case, as CUDA itself notices none of it but the frees, which it
// refuses. Run by tests of `tracking` and `guard`.
#include <cstring>

#include "tests/programs/support.hpp"

namespace {

int volatile kept_small = 20, kept_medium = 10, kept_large = 7;  // gcc 11 would split the loops

[[gnu::noinline]] void* take_small() {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 1000));
  return block;
}

[[gnu::noinline]] void* take_medium() {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 64 << 10));
  return block;
}

[[gnu::noinline]] void* take_large(cudaStream_t stream) {
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, 1 << 20, stream));
  return block;
}

[[gnu::noinline]] void leak() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream));
  for (int i = 0; i < 40; ++i) {
    void* block = take_small();
    if (i >= kept_small) REQUIRE(cudaFree(block));
  }
  for (int i = 0; i < 30; ++i) {
    void* block = take_medium();
    if (i >= kept_medium) REQUIRE(cudaFree(block));
  }
  for (int i = 0; i < 30; ++i) {
    void* block = take_large(stream);
    if (i >= kept_large) REQUIRE(cudaFreeAsync(block, stream));
  }
  REQUIRE(cudaDeviceSynchronize());
}

[[gnu::noinline]] void free_wrongly() {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 3000));
  void* other = nullptr;
  REQUIRE(cudaMalloc(&other, 5000));
  REQUIRE(cudaFree(block));
  REQUIRE_CODE(cudaFree(block), cudaErrorInvalidValue);
  REQUIRE_CODE(cudaFree(static_cast<char*>(other) + 512), cudaErrorInvalidValue);
  REQUIRE_CODE(cudaFree(reinterpret_cast<void*>(0x1234000)), cudaErrorInvalidValue);
  REQUIRE(cudaFree(other));
}

// Memory of other chains is there first: managed, and of the last device.
void use_other_chains() {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  void* managed = nullptr;
  REQUIRE(cudaMallocManaged(&managed, 4096));
  REQUIRE(cudaSetDevice(devices - 1));
  void* elsewhere = nullptr;
  REQUIRE(cudaMalloc(&elsewhere, 4096));
  REQUIRE(cudaFree(elsewhere));
  REQUIRE(cudaSetDevice(0));
  REQUIRE(cudaFree(managed));
}

[[gnu::noinline]] void write_behind() {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 3000));
  void* other = nullptr;
  REQUIRE(cudaMalloc(&other, 1 << 20));
  REQUIRE(cudaMemset(static_cast<char*>(block) + 3004, 7, 3));
  REQUIRE(cudaFree(block));
  REQUIRE(cudaMemset(static_cast<char*>(other) + (1 << 20), 7, 1));
  REQUIRE(cudaDeviceSynchronize());
}

// Of an address that was freed once before: the block that is there now lives on.
void free_as_the_hosts() {
  REQUIRE(cudaFree(take_small()));
  void* const block = take_small();
  REQUIRE_CODE(cudaFreeHost(block), cudaErrorInvalidValue);
  cudaGetLastError();
  REQUIRE(cudaFree(block));
}

}  // namespace

int main(int argc, char** argv) {
  char const* what = argc > 1 ? argv[1] : "leaks";
  if (std::strcmp(what, "frees") == 0) {
    free_wrongly();
  } else if (std::strcmp(what, "frees beside other chains") == 0) {
    use_other_chains();
    free_wrongly();
  } else if (std::strcmp(what, "crossed") == 0) {
    free_as_the_hosts();
  } else if (std::strcmp(what, "writes") == 0) {
    write_behind();
  } else {
    leak();
  }
  std::printf("done: %s\n", what);
  return 0;
}
