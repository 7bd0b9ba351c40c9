// The return codes that a program may rely on, as measured on a real driver.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "fixture.hpp"

using codes = simulated_test;

TEST_F(codes, zero_sizes_and_null) {
  CUdeviceptr p = 42;
  EXPECT_EQ(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(p, 0u);
  EXPECT_EQ(cuMemFree(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAllocAsync(&p, 0, s), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetInfo(nullptr, nullptr), CUDA_SUCCESS);
}

TEST_F(codes, bad_frees) {
  CUdeviceptr p = 0;
  void* host = nullptr;
  ASSERT_EQ(cuMemAlloc(&p, 4096), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostAlloc(&host, 4096, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(p + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(0x1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(host)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(p), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(codes, cross_frees) {
  CUdeviceptr plain = 0, ordered = 0;
  ASSERT_EQ(cuMemAlloc(&plain, 4096), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&ordered, 4096, s), CUDA_SUCCESS);
  ASSERT_EQ(kernel(s, ordered, 4096, 1'000'000), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(ordered), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY) << "freeing a stream-ordered block is no barrier";
  EXPECT_EQ(cuMemFreeAsync(plain, s), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(plain, s), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(codes, out_of_memory_zeroes_the_output) {
  CUdeviceptr p = 42;
  EXPECT_EQ(cuMemAlloc(&p, 1ull << 44), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(p, 0u);
  p = 42;
  EXPECT_EQ(cuMemAllocAsync(&p, 1ull << 44, s), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(p, 0u);
}

TEST_F(codes, no_context) {
  CUcontext mine = nullptr;
  CUdeviceptr p = 0;
  ASSERT_EQ(cuCtxPopCurrent(&mine), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxPushCurrent(mine), CUDA_SUCCESS);
}

// docs/gpu-results/nvidia-h100-simulated_answers.md, as the next two.
TEST_F(codes, what_is_asked_without_a_context) {
  CUdeviceptr plain = 0, managed = 0, pooled = 0, told = 0;
  CUstream on = nullptr;
  CUcontext mine = nullptr;
  char own[64] = {};
  ASSERT_EQ(cuMemAlloc(&plain, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&pooled, 64, s), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&on, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(context, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  ASSERT_EQ(cuCtxPopCurrent(&mine), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAllocManaged(&told, 64, 0), CUDA_ERROR_INVALID_VALUE) << "the flags first";
  EXPECT_EQ(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(reinterpret_cast<void*>(pooled)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, plain),
            CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemPrefetchAsync(managed, 64, {CU_MEM_LOCATION_TYPE_DEVICE, {0}}, 0, on), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(mine), CUDA_SUCCESS);
  for (CUdeviceptr each : {plain, managed, pooled}) EXPECT_EQ(cuMemFree(each), CUDA_SUCCESS);
}

TEST_F(codes, what_a_refusal_writes_and_what_a_pool_says) {
  CUdeviceptr base = 42;
  std::size_t bytes = 42;
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, 4096), CUDA_ERROR_NOT_FOUND);
  EXPECT_TRUE(base != 42 && bytes != 42);
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, {-1}};
  CUmemoryPool pool = nullptr;
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_EQ(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED),
            CUDA_ERROR_INVALID_VALUE);
  location.id = 0;
  ASSERT_EQ(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_MANAGED), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolGetAccess(&flags, pool, &location), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  location.id = 100;
  EXPECT_EQ(cuMemPoolGetAccess(&flags, pool, &location), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(codes, of_an_invalidated_capture_that_is_said_first) {
  CUdeviceptr block = 0, plain = 0;
  CUmemoryPool pool = nullptr;
  CUgraph graph = nullptr;
  unsigned told = 0;
  ASSERT_EQ(cuMemAllocAsync(&block, 4096, s), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetFlags(s, &told), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuMemPoolSetAccess(pool, nullptr, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuMemAlloc(&plain, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAllocAsync(&plain, 0, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuMemFreeAsync(block + 512, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  std::thread([&] {
    EXPECT_EQ(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }).join();
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(codes, free_waits_for_the_context) {
  CUdeviceptr p = 0, q = 0;
  cuMemAlloc(&p, 4096);
  cuMemAlloc(&q, 4096);
  ASSERT_EQ(kernel(t, q, 4096, 5'000'000), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(t), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuMemFree(p), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(t), CUDA_SUCCESS);
}

TEST_F(codes, small_blocks_share_a_driver_block_and_all_is_returned) {
  size_t before = 0, after = 0, total = 0;
  cuMemGetInfo(&before, &total);
  std::vector<CUdeviceptr> blocks(100);
  for (CUdeviceptr& each : blocks) ASSERT_EQ(cuMemAlloc(&each, 1000), CUDA_SUCCESS);
  EXPECT_EQ(blocks[1] - blocks[0], 1024u);
  cuMemGetInfo(&after, &total);
  EXPECT_EQ(before - after, 2u << 20);
  for (CUdeviceptr each : blocks) EXPECT_EQ(cuMemFree(each), CUDA_SUCCESS);
  cuMemGetInfo(&after, &total);
  EXPECT_EQ(before, after);
}

TEST_F(codes, address_range_is_the_block) {
  CUdeviceptr p = 0, base = 0;
  size_t bytes = 0;
  cuMemAlloc(&p, 3000);
  ASSERT_EQ(cuMemGetAddressRange(&base, &bytes, p + 100), CUDA_SUCCESS);
  EXPECT_EQ(base, p);
  EXPECT_EQ(bytes, 3000u);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, 0x1000), CUDA_ERROR_NOT_FOUND);
}

TEST_F(codes, copies_move_bytes_when_their_time_comes) {
  CUdeviceptr p = 0;
  void* pinned = nullptr;
  cuMemAlloc(&p, 4096);
  cuMemHostAlloc(&pinned, 4096, 0);
  std::memset(pinned, 1, 4096);
  cuMemsetD8Async(p, 9, 4096, s);
  cuMemcpyDtoHAsync(pinned, p, 4096, s);
  EXPECT_EQ(static_cast<char*>(pinned)[0], 1) << "nothing has run yet";
  ASSERT_EQ(cuStreamSynchronize(s), CUDA_SUCCESS);
  EXPECT_EQ(static_cast<char*>(pinned)[4095], 9);
  std::vector<char> back(4096);
  ASSERT_EQ(cuMemcpyDtoH(back.data(), p, 4096), CUDA_SUCCESS);
  EXPECT_EQ(back[17], 9);
  EXPECT_EQ(cuMemcpyHtoD(0x1000, back.data(), 16), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(codes, reset_forgets_everything) {
  CUcontext primary = nullptr;
  CUdeviceptr p = 0;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 1), CUDA_SUCCESS);
  cuCtxPushCurrent(primary);
  ASSERT_EQ(cuMemAlloc(&p, 4096), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset(1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(p), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(&p, 4096), CUDA_SUCCESS);
  cuCtxPopCurrent(nullptr);
  cuDevicePrimaryCtxReset(1);
}

TEST_F(codes, calls_are_counted_by_name) {
  CUdeviceptr p = 0;
  cuMemAlloc(&p, 4096);
  cuMemFree(p);
  EXPECT_EQ(simulatedCounters("cuMemAlloc_v2"), 1u);
  EXPECT_EQ(simulatedCounters("cuMemFree_v2"), 1u);
  simulatedCountersReset();
  EXPECT_EQ(simulatedCounters(nullptr), 0u);
}

TEST_F(codes, a_context_that_ends_while_another_thread_has_it_pushed_is_a_hazard) {
  CUcontext other = nullptr;
  auto const before = simulated_control::hazards();
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);  // one's own
  ASSERT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
  EXPECT_EQ(simulated_control::hazards(), before);
  cuCtxPopCurrent(nullptr);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 0), CUDA_SUCCESS);
  std::atomic<int> step{0};
  std::thread visitor([&] {
    EXPECT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
    step = 1;
    while (step != 2) std::this_thread::yield();
    cuCtxPopCurrent(nullptr);
  });
  while (step != 1) std::this_thread::yield();
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
  EXPECT_EQ(simulated_control::hazards(), before + 1);
  simulated_control::clear_hazards();
  step = 2;
  visitor.join();
}
