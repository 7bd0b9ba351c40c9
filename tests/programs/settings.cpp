// What a program sets on memory, and who finds it afterwards: SYNC_MEMOPS of device, stream-ordered, managed
// and pinned memory; advice, preferred location and prefetches of managed memory; attachment to streams. Each
// is set on one block between others, which must not see it, and the next owner of the memory finds all of it
// as new. Prints what the driver says. Run plain and preloaded by the integration and GPU tests. One thread.
#include <cuda.h>

#include <vector>

#include "tests/programs/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;

constexpr std::size_t kib = 1 << 10;
constexpr std::size_t mib = 1 << 20;
constexpr CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
constexpr CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}};

int sync_memops(CUdeviceptr address) {
  int value = -1;
  REQUIRE(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  unsigned again = 2;
  void* values[] = {&again};
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS};
  REQUIRE(cuPointerGetAttributes(1, asked, values, address));
  REQUIRE_CODE(again, value);
  return value;
}

void set_sync_memops(CUdeviceptr address, unsigned value) {
  REQUIRE(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
}

CUdeviceptr take(std::size_t bytes) {
  CUdeviceptr made = 0;
  REQUIRE(cuMemAlloc(&made, bytes));
  return made;
}

void of_plain_memory(std::size_t bytes) {
  CUdeviceptr blocks[5];
  for (CUdeviceptr& block : blocks) block = take(bytes);
  const auto show = [&](const char* what) {
    std::printf("%zu bytes, %s:", bytes, what);
    for (CUdeviceptr block : blocks) std::printf(" %d", sync_memops(block));
    std::printf("\n");
  };
  show("fresh");
  set_sync_memops(blocks[1], 1);
  set_sync_memops(blocks[3] + bytes / 2, 7);
  show("second and fourth set");
  REQUIRE(cuMemFree(blocks[1]));
  blocks[1] = take(bytes);
  show("second freed and allocated");
  set_sync_memops(blocks[1], 1);
  set_sync_memops(blocks[3], 0);
  show("second set, fourth reset");
  if (simulated_control::present())
    std::printf("the driver has it: %d\n", simulated_control::sync_memops() != 0);
  for (CUdeviceptr block : blocks) REQUIRE(cuMemFree(block));
  for (int round = 0; round < 20; ++round) {
    for (CUdeviceptr& block : blocks) block = take(bytes);
    for (CUdeviceptr block : blocks) REQUIRE_CODE(sync_memops(block), 0);
    for (CUdeviceptr block : blocks) set_sync_memops(block, 1);
    for (CUdeviceptr block : blocks) REQUIRE(cuMemFree(block));
  }
}

void of_other_memory() {
  CUdeviceptr ordered = 0;
  CUdeviceptr managed = 0;
  void* pinned = nullptr;
  for (int round = 0; round < 2; ++round) {
    REQUIRE(cuMemAllocAsync(&ordered, mib, nullptr));
    REQUIRE(cuMemAllocManaged(&managed, mib, CU_MEM_ATTACH_GLOBAL));
    REQUIRE(cuMemAllocHost(&pinned, mib));
    REQUIRE(cuStreamSynchronize(nullptr));
    const auto of_host = reinterpret_cast<CUdeviceptr>(pinned);
    std::printf("ordered %d, managed %d, pinned %d\n", sync_memops(ordered), sync_memops(managed),
                sync_memops(of_host));
    set_sync_memops(ordered, 1);
    set_sync_memops(managed, 1);
    set_sync_memops(of_host, 1);
    std::printf("set: %d %d %d\n", sync_memops(ordered), sync_memops(managed), sync_memops(of_host));
    REQUIRE(cuMemFreeAsync(ordered, nullptr));
    REQUIRE(cuStreamSynchronize(nullptr));
    REQUIRE(cuMemFree(managed));
    REQUIRE(cuMemFreeHost(pinned));
  }
}

void codes() {
  CUdeviceptr block = take(mib);
  unsigned value = 1;
  for (int attribute = 1; attribute <= 21; ++attribute) {
    if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) continue;
    const CUresult code = cuPointerSetAttribute(&value, static_cast<CUpointer_attribute>(attribute), block);
    std::printf("attribute %d: code %d\n", attribute, code);
  }
  const CUresult no_value = cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block);
  const CUresult no_block = cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0x1000);
  std::printf("no value: code %d; no block: code %d\n", no_value, no_block);
  REQUIRE(cuMemFree(block));
}

struct said {
  int read_mostly = 0, preferred = 0, prefetched = 0;
  int accessed_by[2] = {};
};

said ask(CUdeviceptr address, std::size_t bytes) {
  said s;
  void* values[] = {&s.read_mostly, &s.preferred, &s.prefetched, s.accessed_by};
  std::size_t sizes[] = {4, 4, 4, 8};
  CUmem_range_attribute asked[] = {
      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
      CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
  REQUIRE(cuMemRangeGetAttributes(values, sizes, asked, 4, address, bytes));
  int alone = 0;
  REQUIRE(cuMemRangeGetAttribute(&alone, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address, bytes));
  REQUIRE_CODE(alone, s.prefetched);
  return s;
}

void show(const char* what, CUdeviceptr address, std::size_t bytes) {
  const said s = ask(address, bytes);
  std::printf("%s: read mostly %d, preferred %d, prefetched %d, accessed by %d %d\n", what, s.read_mostly,
              s.preferred, s.prefetched, s.accessed_by[0], s.accessed_by[1]);
}

void of_managed_memory(std::size_t bytes) {
  CUdeviceptr blocks[3] = {};
  for (CUdeviceptr& block : blocks) REQUIRE(cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
  std::printf("managed, %zu bytes\n", bytes);
  // A driver lays small ones into one page, and advice is of pages: there a neighbour has it, or not.
  bool const neighbours = bytes >= 64 * kib;
  for (int round = 0; round < 3; ++round) {
    CUdeviceptr& block = blocks[1];
    for (CUdeviceptr each : blocks) show("fresh", each, bytes);
    REQUIRE(cuMemAdvise(block, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    if (round == 1) REQUIRE(cuMemAdvise(block, bytes / 2, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
    REQUIRE(cuMemAdvise(block, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, round == 0 ? host : device));
    REQUIRE(cuMemAdvise(block, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    if (round != 1) REQUIRE(cuMemAdvise(block, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, host));
    REQUIRE(cuMemPrefetchAsync(block, bytes, round == 2 ? host : device, 0, nullptr));
    REQUIRE(cuStreamSynchronize(nullptr));
    for (CUdeviceptr each : blocks) {
      if (neighbours || each == block) show("advised", each, bytes);
    }
    REQUIRE(cuMemFree(block));
    REQUIRE(cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
  }
  for (CUdeviceptr each : blocks) show("at the end", each, bytes);
  for (CUdeviceptr each : blocks) REQUIRE(cuMemFree(each));
}

// As drivers before 12.2 had them, and CUDA 13's for several at once.
void by_other_calls() {
  CUdeviceptr blocks[2] = {};
  std::size_t sizes[2] = {2 * mib, 2 * mib};
  CUmemLocation to[1] = {device};
  std::size_t first[1] = {0};
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < 2; ++round) {
    for (CUdeviceptr& block : blocks) REQUIRE(cuMemAllocManaged(&block, 2 * mib, CU_MEM_ATTACH_GLOBAL));
    for (CUdeviceptr block : blocks) show("fresh", block, 2 * mib);
    REQUIRE(cuMemPrefetchBatchAsync(blocks, sizes, 2, to, first, 1, 0, stream));
    REQUIRE(cuStreamSynchronize(stream));
    for (CUdeviceptr block : blocks) show("prefetched", block, 2 * mib);
    for (unsigned flags : {CU_MEM_ATTACH_SINGLE, CU_MEM_ATTACH_HOST, CU_MEM_ATTACH_GLOBAL})
      REQUIRE(cuStreamAttachMemAsync(stream, blocks[0], 0, flags));
    REQUIRE(cuStreamSynchronize(stream));
    for (CUdeviceptr block : blocks) REQUIRE(cuMemFree(block));
  }
  REQUIRE(cuStreamDestroy(stream));
}

// What is set already, or stays set for a neighbour's sake, is set or reset by a thread without a context.
void without_context(std::size_t bytes) {
  CUdeviceptr blocks[4] = {take(bytes), take(bytes)};
  for (CUdeviceptr* block : {&blocks[2], &blocks[3]})
    REQUIRE(cuMemAllocManaged(block, bytes, CU_MEM_ATTACH_GLOBAL));
  for (CUdeviceptr block : blocks) set_sync_memops(block, 1);
  CUcontext current = nullptr;
  REQUIRE(cuCtxGetCurrent(&current));
  REQUIRE(cuCtxSetCurrent(nullptr));
  for (CUdeviceptr block : blocks) {
    for (unsigned value : {1, 0}) {
      const CUresult code = cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block);
      std::printf("without a context: code %d\n", code);
    }
  }
  REQUIRE(cuCtxSetCurrent(current));
  for (CUdeviceptr block : blocks) {
    std::printf("afterwards %d\n", sync_memops(block));
    REQUIRE(cuMemFree(block));
  }
}

void refusals() {
  CUdeviceptr blocks[3] = {};
  for (CUdeviceptr& block : blocks) REQUIRE(cuMemAllocManaged(&block, 2 * mib, CU_MEM_ATTACH_GLOBAL));
  CUdeviceptr const managed = blocks[1];
  CUdeviceptr const plain = take(mib);
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::size_t sizes[1] = {2 * mib};
  CUmemLocation to[1] = {device};
  std::size_t first[1] = {0};
  void* const as_host = reinterpret_cast<void*>(plain);
  const CUresult answers[] = {cuMemAdvise(plain, mib, CU_MEM_ADVISE_SET_READ_MOSTLY, device),
                              cuMemPrefetchAsync(plain, mib, device, 0, nullptr),
                              cuMemAdvise(managed, 100 * mib, CU_MEM_ADVISE_SET_READ_MOSTLY, device),
                              cuMemPrefetchAsync(managed, 100 * mib, device, 0, nullptr),
                              cuMemAdvise(managed + 1000, 100, CU_MEM_ADVISE_SET_READ_MOSTLY, device),
                              cuMemPrefetchBatchAsync(&blocks[1], sizes, 1, to, first, 1, 0, nullptr),
                              cuStreamAttachMemAsync(stream, managed, 2 * mib, CU_MEM_ATTACH_SINGLE),
                              cuStreamAttachMemAsync(stream, managed, mib, CU_MEM_ATTACH_SINGLE),
                              cuStreamAttachMemAsync(stream, managed + 4096, 0, CU_MEM_ATTACH_SINGLE),
                              cuStreamAttachMemAsync(nullptr, managed, 0, CU_MEM_ATTACH_SINGLE),
                              cuStreamAttachMemAsync(CU_STREAM_PER_THREAD, managed, 0, CU_MEM_ATTACH_SINGLE),
                              cuStreamAttachMemAsync(stream, plain, 0, CU_MEM_ATTACH_SINGLE),
                              cuMemHostRegister(as_host, mib, 0)};
  for (CUresult code : answers) std::printf("code %d\n", code);
  REQUIRE(cuStreamSynchronize(stream));
  REQUIRE(cuStreamDestroy(stream));
  for (CUdeviceptr block : blocks) REQUIRE(cuMemFree(block));
  REQUIRE(cuMemFree(plain));
}

// Questions are of bytes, though advice is of pages, and a capture is looked at before the block (measured,
// 580.159).
void of_small_blocks() {
  CUdeviceptr blocks[3] = {};
  for (CUdeviceptr& block : blocks) REQUIRE(cuMemAllocManaged(&block, 1000, CU_MEM_ATTACH_GLOBAL));
  for (std::size_t bytes : {999, 1000, 1001, 4096}) {
    int value = 0;
    const CUresult code =
        cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, blocks[1], bytes);
    std::printf("%zu bytes of 1000: code %d\n", bytes, code);
  }
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  const CUresult attached = cuStreamAttachMemAsync(stream, blocks[1], 500, CU_MEM_ATTACH_SINGLE);
  std::printf("half of one attached in a capture: code %d, its end %d\n", attached,
              cuStreamEndCapture(stream, &graph));
  REQUIRE(cuStreamDestroy(stream));
  for (CUdeviceptr block : blocks) REQUIRE(cuMemFree(block));
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  for (std::size_t bytes : {std::size_t{1000}, 64 * kib, 3 * mib, 40 * mib}) of_plain_memory(bytes);
  of_other_memory();
  codes();
  for (std::size_t bytes : {std::size_t{1000}, 64 * kib, mib, 8 * mib}) of_managed_memory(bytes);
  by_other_calls();
  for (std::size_t bytes : {std::size_t{1000}, 3 * mib}) without_context(bytes);
  refusals();
  of_small_blocks();
  if (simulated_control::present())
    std::printf("still set in the driver: %llu\n", simulated_control::sync_memops());
}
