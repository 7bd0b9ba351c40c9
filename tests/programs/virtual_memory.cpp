// Device memory that no chain serves, by the driver API. "handles": memory of cuMemCreate that is retained,
// released and mapped more than once; at the end 6 MiB are left. "freed": 12 MiB of it, all given back, and
// no other memory. "refused": 4 MiB that are mapped twice, side by side as in a ring buffer, and one
// cuMemUnmap that the driver refuses; 4 MiB are left. "unmaps": which ranges it takes. "pool": a block of a
// memory pool of the program's own, whose pool takes more of the device than the block. "host": memory of the
// host. Prints what it left; unrouted.py compares that with the report. Run plain and preloaded. One thread.
#include <cuda.h>

#include <cstring>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t mib = 1 << 20;

CUmemAllocationProp on_device() {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  return wanted;
}

CUmemGenericAllocationHandle created(std::size_t bytes) {
  const CUmemAllocationProp wanted = on_device();
  CUmemGenericAllocationHandle made = 0;
  REQUIRE(cuMemCreate(&made, bytes, &wanted, 0));
  return made;
}

CUdeviceptr reserved(std::size_t bytes) {
  CUdeviceptr range = 0;
  REQUIRE(cuMemAddressReserve(&range, bytes, 0, 0, 0));
  return range;
}

// The report has figures of a device that a chain was asked for, taken when reserved memory changes.
void report_device() {
  CUdeviceptr block = 0;
  REQUIRE(cuMemAlloc(&block, 64 * mib));
}

void handles() {
  const CUmemGenericAllocationHandle first = created(4 * mib);
  CUmemGenericAllocationHandle again = 0;
  CUdeviceptr here = reserved(4 * mib);
  const CUdeviceptr there = reserved(4 * mib);
  REQUIRE(cuMemMap(here, 4 * mib, 0, first, 0));
  REQUIRE(cuMemMap(there, 4 * mib, 0, first, 0));
  REQUIRE(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(here)));
  REQUIRE(cuMemRelease(first));
  REQUIRE(cuMemRelease(again));
  REQUIRE(cuMemUnmap(here, 4 * mib));
  REQUIRE(cuMemUnmap(there, 4 * mib));
  REQUIRE(cuMemAddressFree(here, 4 * mib));
  REQUIRE(cuMemAddressFree(there, 4 * mib));
  const CUmemGenericAllocationHandle left = created(6 * mib);
  here = reserved(6 * mib);
  REQUIRE(cuMemMap(here, 6 * mib, 0, left, 0));
  REQUIRE(cuMemRelease(left));  // the mapping holds it
  report_device();
  std::printf("left %zu\n", 6 * mib);
}

// The second mapping is all that holds the memory at the end.
void refused() {
  const CUmemGenericAllocationHandle memory = created(4 * mib);
  CUmemGenericAllocationHandle again = 0;
  const CUdeviceptr ring = reserved(12 * mib);
  REQUIRE(cuMemMap(ring, 4 * mib, 0, memory, 0));
  REQUIRE(cuMemMap(ring + 4 * mib, 4 * mib, 0, memory, 0));
  REQUIRE(cuMemRelease(memory));
  REQUIRE_CODE(cuMemUnmap(ring, 6 * mib), CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemUnmap(ring, 4 * mib));
  REQUIRE(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(ring + 4 * mib)));
  REQUIRE(cuMemRelease(again));
  report_device();
  std::printf("left %zu\n", 4 * mib);
}

// Which ranges a driver unmaps.
void unmaps() {
  const CUmemGenericAllocationHandle memory = created(4 * mib);
  CUmemGenericAllocationHandle again = 0;
  const CUdeviceptr at = reserved(24 * mib);
  auto const unmap = [&](const char* what, std::initializer_list<std::size_t> mapped, std::size_t begin,
                         std::size_t end) {
    for (std::size_t where : mapped) REQUIRE(cuMemMap(at + where * mib, 4 * mib, 0, memory, 0));
    std::printf("%-50s %d, then mapped at", what, cuMemUnmap(at + begin * mib, (end - begin) * mib));
    for (std::size_t where = 0; where < 24; where += 4) {
      if (cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at + where * mib)) != CUDA_SUCCESS)
        continue;
      std::printf(" %zu", where);
      REQUIRE(cuMemRelease(again));
      REQUIRE(cuMemUnmap(at + where * mib, 4 * mib));
    }
    std::printf("\n");
  };
  unmap("half of a mapping", {0, 4}, 0, 2);
  unmap("the middle of one to the end of the next", {0, 4}, 2, 8);
  unmap("one to the middle of the next", {0, 4}, 0, 6);
  unmap("two, and 4 MiB that nothing is mapped to", {0, 4}, 0, 12);
  unmap("4 MiB of nothing, and one", {4, 8}, 0, 8);
  unmap("nothing", {4}, 0, 4);
  unmap("one, a hole, one", {0, 8, 16}, 0, 12);
  unmap("a hole between two", {0, 8}, 4, 8);
  unmap("one, and what is not reserved", {16, 20}, 20, 28);
  unmap("one, and half of a hole", {0, 8}, 0, 6);
  unmap("all", {0, 4, 12, 20}, 0, 24);
  REQUIRE(cuMemAddressFree(at, 24 * mib));
  REQUIRE(cuMemRelease(memory));
}

// No chain is asked for anything: all that the report can say of the device is what was seen.
void freed() {
  CUmemGenericAllocationHandle handles[3] = {};
  for (auto& handle : handles) handle = created(4 * mib);
  for (auto handle : handles) REQUIRE(cuMemRelease(handle));
  REQUIRE(cuMemRelease(created(2 * mib)));
  std::printf("left 0 highest %zu\n", 12 * mib);
}

// Memory of the host, which is on no device, whichever call makes it.
void host() {
  CUmemAllocationProp wanted = on_device();
  wanted.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}};
  CUmemGenericAllocationHandle handle = 0;
  const CUresult code = cuMemCreate(&handle, 8 * mib, &wanted, 0);
  void* pinned = nullptr;
  void* mapped = nullptr;
  REQUIRE(cuMemAllocHost(&pinned, 3 * mib));
  REQUIRE(cuMemHostAlloc(&mapped, 5 * mib, CU_MEMHOSTALLOC_DEVICEMAP));
  report_device();
  std::printf("left 0, code of cuMemCreate %d\n", code);
}

void pool() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool own = nullptr;
  CUdeviceptr block = 0;
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  REQUIRE(cuMemGetInfo(&before, &total));
  REQUIRE(cuMemPoolCreate(&own, &properties));
  REQUIRE(cuMemAllocFromPoolAsync(&block, mib, own, nullptr));
  REQUIRE(cuMemGetInfo(&after, &total));
  report_device();
  std::printf("left %zu taken %zu\n", mib, before - after);
}

}  // namespace

int main(int argc, char** argv) {
  CUcontext context = nullptr;
  REQUIRE(cuInit(0));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0));
  REQUIRE(cuCtxSetCurrent(context));
  if (argc > 1 && std::strcmp(argv[1], "pool") == 0) {
    pool();
  } else if (argc > 1 && std::strcmp(argv[1], "host") == 0) {
    host();
  } else if (argc > 1 && std::strcmp(argv[1], "refused") == 0) {
    refused();
  } else if (argc > 1 && std::strcmp(argv[1], "unmaps") == 0) {
    unmaps();
  } else if (argc > 1 && std::strcmp(argv[1], "freed") == 0) {
    freed();
  } else {
    handles();
  }
}
