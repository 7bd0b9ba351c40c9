// What a program may take for granted of any block: its alignment, for every size from 1 to 4097 and kind of
// memory, and what cudaMemGetInfo says around it: free never grows by an allocation, never shrinks by a free,
// and is at the end what it was at the start. Then every wrong free that bad_frees does not make, with its
// code and the runtime's last error. Run alone on its device. One thread.
#include <algorithm>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

int misaligned(const void* block, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(block) % to == 0 ? 0 : 1;
}

void alignment() {
  cudaDeviceProp properties{};
  REQUIRE(cudaGetDeviceProperties(&properties, 0));
  const std::size_t texture = properties.textureAlignment;
  int wrong_plain = 0, wrong_ordered = 0, wrong_managed = 0, wrong_host = 0;
  std::vector<void*> kept;
  for (std::size_t bytes = 1; bytes <= 4097; ++bytes) {
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, bytes));
    wrong_plain += misaligned(block, texture);
    kept.push_back(block);
    REQUIRE(cudaMallocAsync(&block, bytes, nullptr));
    wrong_ordered += misaligned(block, texture);
    REQUIRE(cudaFreeAsync(block, nullptr));
    if (bytes % 64 == 1) {
      REQUIRE(cudaMallocManaged(&block, bytes));
      wrong_managed += misaligned(block, 256);
      REQUIRE(cudaFree(block));
      REQUIRE(cudaMallocHost(&block, bytes));
      wrong_host += misaligned(block, 64);
      REQUIRE(cudaFreeHost(block));
    }
    if (kept.size() == 97) {  // some, so that the holes differ in size
      for (void* each : kept) REQUIRE(cudaFree(each));
      kept.clear();
    }
  }
  for (void* each : kept) REQUIRE(cudaFree(each));
  std::printf("misaligned: %d plain, %d stream-ordered, %d managed, %d host\n", wrong_plain, wrong_ordered,
              wrong_managed, wrong_host);
}

std::size_t free_now() {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total));
  REQUIRE_CODE(free <= total, true);
  return free;
}

void memory_info() {
  sequence random(3);
  std::vector<void*> blocks;
  REQUIRE(cudaDeviceSynchronize());
  const std::size_t start = free_now();
  std::size_t last = start;
  int grew = 0, shrank = 0;
  for (int step = 0; step < 400; ++step) {
    const bool take = blocks.empty() || (blocks.size() < 60 && random.next(2) == 0);
    if (take) {
      void* block = nullptr;
      REQUIRE(cudaMalloc(&block, (1 + random.next(32)) * (2 << 20)));
      blocks.push_back(block);
    } else {
      std::swap(blocks[random.next(blocks.size())], blocks.back());
      REQUIRE(cudaFree(blocks.back()));
      blocks.pop_back();
    }
    const std::size_t now = free_now();
    grew += take && now > last;
    shrank += !take && now < last;
    last = now;
  }
  for (void* block : blocks) REQUIRE(cudaFree(block));
  std::printf("free grew by an allocation %d times, shrank by a free %d times\n", grew, shrank);
  std::printf("free at the end is that of the start: %d\n", free_now() == start);
  cudaDeviceProp properties{};
  std::size_t free = 0, total = 0;
  REQUIRE(cudaGetDeviceProperties(&properties, 0));
  REQUIRE(cudaMemGetInfo(&free, &total));
  std::printf("total is the device's: %d\n", properties.totalGlobalMem == total);
}

void show(const char* what, int code) {
  std::printf("%-40s %d, last error %d\n", what, code, static_cast<int>(cudaGetLastError()));
}

void wrong_frees() {
  void* block = nullptr;
  void* other = nullptr;
  REQUIRE(cudaMallocAsync(&block, 8192, nullptr));
  show("cudaFreeAsync(interior)", cudaFreeAsync(static_cast<char*>(block) + 512, nullptr));
  show("cudaFreeHost(async block)", cudaFreeHost(block));
  show("cudaFreeAsync", cudaFreeAsync(block, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("cudaFreeAsync(made up)", cudaFreeAsync(reinterpret_cast<void*>(0x123456000), nullptr));
  show("cudaFreeAsync(null)", cudaFreeAsync(nullptr, nullptr));
  REQUIRE(cudaMalloc(&block, 8192));
  show("cudaFreeHost(device block)", cudaFreeHost(block));
  show("cudaFree after it", cudaFree(block));
  REQUIRE(cudaMallocHost(&block, 8192));
  show("cudaFree(pinned)", cudaFree(block));
  show("cudaFreeHost(pinned, interior)", cudaFreeHost(static_cast<char*>(block) + 64));
  show("cudaFreeHost", cudaFreeHost(block));
  show("cudaFreeHost again", cudaFreeHost(block));
  show("cudaFreeHost(null)", cudaFreeHost(nullptr));
  REQUIRE(cudaMallocManaged(&block, 8192));
  show("cudaFreeHost(managed)", cudaFreeHost(block));
  show("cudaFree(managed, interior)", cudaFree(static_cast<char*>(block) + 512));
  show("cudaFree(managed)", cudaFree(block));
  show("cudaFree(managed) again", cudaFree(block));
  static char registered[1 << 16];
  REQUIRE(cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
  show("cudaFree(registered)", cudaFree(registered));
  show("cudaFreeHost(registered)", cudaFreeHost(registered));
  REQUIRE(cudaHostUnregister(registered));
  std::size_t pitch = 0;
  REQUIRE(cudaMallocPitch(&block, &pitch, 1000, 10));
  show("cudaFree(pitched)", cudaFree(block));
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0));
  REQUIRE(cudaMallocFromPoolAsync(&block, 8192, pool, nullptr));
  REQUIRE(cudaMallocFromPoolAsync(&other, 8192, pool, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("cudaFree(block of a pool)", cudaFree(block));
  show("cudaFreeAsync(block of a pool)", cudaFreeAsync(other, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  alignment();
  memory_info();
  wrong_frees();
}
