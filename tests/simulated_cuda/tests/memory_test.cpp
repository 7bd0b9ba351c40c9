// Virtual memory management, managed memory, arrays and pools.
#include <cstring>
#include <vector>

#include "fixture.hpp"

using memory_kinds = simulated_test;

namespace {

size_t free_bytes() {
  size_t available = 0;
  cuMemGetInfo(&available, nullptr);
  return available;
}

}  // namespace

TEST_F(memory_kinds, create_map_use_unmap) {
  constexpr size_t bytes = 4u << 20;
  CUmemAllocationProp wanted = {};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0, retained = 0;
  CUdeviceptr range = 0;
  size_t const before = free_bytes();
  EXPECT_EQ(cuMemCreate(&handle, 1000, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemCreate(&handle, bytes, &wanted, 0), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), bytes);
  ASSERT_EQ(cuMemAddressReserve(&range, 256ull << 30, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(range + bytes, bytes, 0, handle, 0), CUDA_SUCCESS);
  CUmemAccessDesc const access = {wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(range + bytes, bytes, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(range + bytes, 3, bytes), CUDA_SUCCESS);
  unsigned char seen = 0;
  EXPECT_EQ(cuMemcpyDtoH(&seen, range + bytes + 77, 1), CUDA_SUCCESS);
  EXPECT_EQ(seen, 3);
  ASSERT_EQ(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(range + bytes + 5)), CUDA_SUCCESS);
  EXPECT_EQ(retained, handle);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(range, 256ull << 30), CUDA_ERROR_INVALID_VALUE) << "still mapped";
  EXPECT_EQ(cuMemUnmap(range + bytes, bytes), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(cuMemAddressFree(range, 256ull << 30), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(simulatedHazardCount(), 0u);
}

TEST_F(memory_kinds, unmapping_under_work_is_a_hazard) {
  constexpr size_t bytes = 2u << 20;
  CUmemAllocationProp wanted = {};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  ASSERT_EQ(cuMemCreate(&handle, bytes, &wanted, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&range, bytes, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(range, bytes, 0, handle, 0), CUDA_SUCCESS);
  simulatedNoteAllocate(range, 4096, nullptr);
  kernel(s, range, 4096, 1'000'000);
  simulatedNoteFree(range, nullptr);
  EXPECT_EQ(cuMemUnmap(range, bytes), CUDA_SUCCESS);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  cuMemRelease(handle);
  cuMemAddressFree(range, bytes);
}

TEST_F(memory_kinds, arrays_and_managed_memory_count_and_come_back) {
  size_t const before = free_bytes();
  CUarray array = nullptr;
  CUdeviceptr managed = 0;
  CUDA_ARRAY_DESCRIPTOR const wanted = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
  ASSERT_EQ(cuArrayCreate(&array, &wanted), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 4u << 20);
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  *reinterpret_cast<int*>(managed) = 5;
  EXPECT_EQ(cuMemFree(managed), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(memory_kinds, managed_memory_is_not_freed_in_order) {
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(managed, s), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemFree(managed), CUDA_SUCCESS);
}

// tests/gpu/freed_beside_another_device.cu
TEST_F(memory_kinds, host_memory_that_is_freed_waits_for_its_own_device_alone) {
  CUcontext other = nullptr;
  void* host = nullptr;
  CUdeviceptr here = 0;
  ASSERT_EQ(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&here, 4096), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 1), CUDA_SUCCESS);
  CUstream on_other = nullptr;
  CUdeviceptr there = 0;
  ASSERT_EQ(cuStreamCreate(&on_other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&there, 4096), CUDA_SUCCESS);
  kernel(on_other, there, 4096, 5'000'000);
  cuCtxSetCurrent(context);
  kernel(s, here, 4096, 1'000'000);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(s), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(on_other), CUDA_ERROR_NOT_READY);
  cuMemFree(here);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
  cuCtxSetCurrent(context);
}

TEST_F(memory_kinds, pool_keeps_to_its_threshold_at_a_synchronisation) {
  CUmemPoolProps wanted = {};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  CUdeviceptr p = 0;
  cuuint64_t value = ~cuuint64_t{0};
  ASSERT_EQ(cuMemPoolCreate(&pool, &wanted), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocFromPoolAsync(&p, 1u << 20, pool, s), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(p, s), CUDA_SUCCESS);
  cuStreamSynchronize(s);
  cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
  EXPECT_GT(value, 0u);
  cuuint64_t zero = 0;
  cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero);
  cuStreamSynchronize(s);
  cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

TEST_F(memory_kinds, pool_waits_on_the_device_rather_than_fail) {
  size_t const most = free_bytes() / 4 * 3;
  CUdeviceptr p = 0, q = 0;
  ASSERT_EQ(cuMemAllocAsync(&p, most, s), CUDA_SUCCESS);
  simulatedNoteAllocate(p, most, s);
  kernel(s, p, most, 1'000'000);
  simulatedNoteFree(p, s);
  ASSERT_EQ(cuMemFreeAsync(p, s), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&q, most, t), CUDA_SUCCESS);
  simulatedNoteAllocate(q, most, t);
  kernel(t, q, most);
  EXPECT_EQ(simulatedHazardCount(), 0u);
  EXPECT_EQ(cuStreamQuery(t), CUDA_ERROR_NOT_READY);
  simulatedNoteFree(q, t);
  cuMemFreeAsync(q, t);
  cuStreamSynchronize(t);
}

TEST_F(memory_kinds, a_peers_kernel_needs_access) {
  CUcontext other = nullptr;
  CUstream there = nullptr;
  CUdeviceptr plain = 0, pooled = 0;
  ASSERT_EQ(cuMemAlloc(&plain, 4096), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&pooled, 4096, s), CUDA_SUCCESS);
  simulatedNoteAllocate(plain, 4096, nullptr);
  simulatedNoteAllocate(pooled, 4096, s);
  cuStreamSynchronize(s);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  kernel(there, plain, 4096);
  kernel(there, pooled, 4096);
  EXPECT_EQ(simulatedHazardCount(), 2u);
  simulatedHazardClear();
  ASSERT_EQ(cuCtxEnablePeerAccess(context, 0), CUDA_SUCCESS);
  kernel(there, plain, 4096);
  EXPECT_EQ(simulatedHazardCount(), 0u);
  kernel(there, pooled, 4096);
  EXPECT_EQ(simulatedHazardCount(), 1u) << "a pool is opened by itself";
  simulatedHazardClear();
  CUmemoryPool pool = nullptr;
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  cuDeviceGetDefaultMemPool(&pool, 0);
  EXPECT_EQ(cuMemPoolGetAccess(&flags, pool, &location), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
  kernel(there, pooled, 4096);
  EXPECT_EQ(simulatedHazardCount(), 0u);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
  kernel(there, pooled, 4096);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  cuCtxDestroy(other);
  cuCtxSetCurrent(context);
  simulatedNoteFree(plain, nullptr);
  simulatedNoteFree(pooled, s);
  cuMemFree(plain);
  cuMemFreeAsync(pooled, s);
}

// As on two H200: code 700.
TEST_F(memory_kinds, a_peers_kernel_needs_access_to_a_mapping) {
  constexpr size_t bytes = 2u << 20;
  CUmemAllocationProp wanted = {};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUcontext other = nullptr;
  CUstream there = nullptr;
  CUdeviceptr range = 0;
  ASSERT_EQ(cuMemAddressReserve(&range, 2 * bytes, 0, 0, 0), CUDA_SUCCESS);
  for (CUdeviceptr at : {range, range + bytes}) {
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(cuMemCreate(&handle, bytes, &wanted, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(at, bytes, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    simulatedNoteAllocate(at, bytes, nullptr);
  }
  CUmemAccessDesc access = {wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(range, 2 * bytes, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxEnablePeerAccess(context, 0), CUDA_SUCCESS);
  kernel(there, range + bytes, 4096);
  EXPECT_EQ(simulatedHazardCount(), 1u) << "access between contexts does not open it";
  simulatedHazardClear();
  access.location.id = 1;
  ASSERT_EQ(cuMemSetAccess(range, 2 * bytes, &access, 1), CUDA_SUCCESS);
  kernel(there, range, 4096);
  kernel(there, range + bytes, 4096);
  EXPECT_EQ(simulatedHazardCount(), 0u);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  ASSERT_EQ(cuMemSetAccess(range, bytes, &access, 1), CUDA_SUCCESS);
  kernel(there, range, 4096);
  kernel(there, range + bytes, 4096);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  simulatedHazardClear();
  cuCtxDestroy(other);
  cuCtxSetCurrent(context);
  for (CUdeviceptr at : {range, range + bytes}) simulatedNoteFree(at, nullptr);
  EXPECT_EQ(cuMemUnmap(range, 2 * bytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(range, 2 * bytes), CUDA_SUCCESS);
}

// As on two H200 and in PyTorch's CUDAMallocAsyncAllocator: only the forms that name both contexts copy a
// pool's memory between devices without access.
TEST_F(memory_kinds, a_copy_on_another_device_needs_access_to_a_pool) {
  CUcontext other = nullptr;
  CUstream there = nullptr;
  CUdeviceptr plain = 0, pooled = 0, theirs = 0;
  char host[4096] = {};
  ASSERT_EQ(cuMemAlloc(&plain, sizeof host), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&pooled, sizeof host, s), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&theirs, sizeof host), CUDA_SUCCESS);
  auto const all_codes = [&](CUdeviceptr block) {
    return std::vector<CUresult>{cuMemcpyDtoH(host, block, sizeof host),
                                 cuMemcpyHtoD(block, host, sizeof host),
                                 cuMemcpyDtoD(theirs, block, sizeof host),
                                 cuMemcpyDtoDAsync(block, theirs, sizeof host, there),
                                 cuMemcpyAsync(theirs, block, sizeof host, there),
                                 cuMemsetD8(block, 1, sizeof host),
                                 cuMemsetD32Async(block, 1, 16, there)};
  };
  std::vector<CUresult> const allowed(7, CUDA_SUCCESS), refused(7, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(all_codes(plain), allowed) << "what cuMemAlloc made needs no access for a copy";
  EXPECT_EQ(all_codes(pooled), refused);
  EXPECT_EQ(cuMemcpyDtoHAsync(host, pooled, sizeof host, s), CUDA_SUCCESS) << "on a stream of its own device";
  EXPECT_EQ(cuMemcpyPeer(theirs, other, pooled, context, sizeof host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyPeerAsync(pooled, context, theirs, other, sizeof host, there), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxEnablePeerAccess(context, 0), CUDA_SUCCESS);
  EXPECT_EQ(all_codes(pooled), refused) << "access between contexts does not open a pool";
  CUmemoryPool pool = nullptr;
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {1}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(all_codes(pooled), allowed);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  ASSERT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(all_codes(pooled), refused);
  cuCtxDestroy(other);
  cuCtxSetCurrent(context);
  cuMemFree(plain);
  cuMemFreeAsync(pooled, s);
}

TEST_F(memory_kinds, the_default_managed_pool_gives_managed_memory) {
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr, plain = nullptr, same = nullptr;
  ASSERT_EQ(cuMemGetDefaultMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_MANAGED), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetDefaultMemPool(&same, &here, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&plain, 0), CUDA_SUCCESS);
  EXPECT_EQ(same, plain);
  EXPECT_NE(pool, plain);
  EXPECT_EQ(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE) << "cuMemAllocAsync gives device memory";
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&address, 10'000, pool, s), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(address, 5, 10'000, s), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(s), CUDA_SUCCESS);
  EXPECT_EQ(reinterpret_cast<unsigned char*>(address)[9'999], 5) << "the host reaches it";
  unsigned managed = 0;
  EXPECT_EQ(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address), CUDA_SUCCESS);
  EXPECT_EQ(managed, 1u);
  EXPECT_EQ(cuMemPrefetchAsync(address, 10'000, here, 0, s), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(address, s), CUDA_SUCCESS);
  here.type = CU_MEM_LOCATION_TYPE_HOST;
  EXPECT_EQ(cuMemGetDefaultMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(simulatedHazardCount(), 0u);
}
