// What a GPU answered to random calls where the simulated driver had not: the second part of
// docs/gpu-results/nvidia-h100-simulated_answers.md, a test for each rule that its rows come of. What is no
// row there, and only follows from one, is not asked here.
#include <cstdlib>
#include <thread>

#include "fixture.hpp"

class answers : public simulated_test {
 protected:
  // A primary context that is current and has ended; `block`: what was made in it.
  void end_current(CUdeviceptr& block) {
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&ended_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPushCurrent(ended_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&block, 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }
  static void spoil() {
    CUdeviceptr refused = 0;
    ASSERT_EQ(cuMemAlloc(&refused, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  // The capture in global mode that `call` spoils, when it is made beside it.
  template <typename Call>
  void expect_forbidden_beside_a_capture(Call const& call) {
    CUgraph graph = nullptr;
    ASSERT_EQ(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  void end_capture(CUresult expected) {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(s, &graph), expected);
    if (graph != nullptr) cuGraphDestroy(graph);
  }

 private:
  CUcontext ended_ = nullptr;
};

// 85017493504 bytes of an H100: no multiple of what its blocks are of.
TEST_F(answers, the_device_has_as_much_memory_as_it_has) {
  char const* const given = std::getenv("GPUMEM_SIMULATED_MEMORY");
  std::size_t available = 0, total = 0, of_device = 0;
  ASSERT_EQ(cuMemGetInfo(&available, &total), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceTotalMem(&of_device, 0), CUDA_SUCCESS);
  EXPECT_EQ(total, given == nullptr ? std::size_t{8} << 30 : std::strtoull(given, nullptr, 0));
  EXPECT_EQ(of_device, total);
  EXPECT_LE(available, total);
}

TEST_F(answers, flags_of_a_stream_before_its_context) {
  CUcontext mine = nullptr;
  CUstream made = nullptr;
  ASSERT_EQ(cuCtxPopCurrent(&mine), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamCreate(&made, 6), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCreateWithPriority(&made, 2, -1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxPushCurrent(mine), CUDA_SUCCESS);
}

TEST_F(answers, what_is_said_under_a_context_that_has_ended) {
  CUdeviceptr others = 0, gone = 0, base = 42;
  std::size_t bytes = 42;
  CUdevice device = 42;
  ASSERT_EQ(cuMemAllocManaged(&others, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  end_current(gone);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuMemFreeHost(reinterpret_cast<void*>(gone)), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuMemFree(others), CUDA_ERROR_CONTEXT_IS_DESTROYED) << "a block of a context that lives";
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, gone), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_TRUE(base == 0 && bytes == 0);
  EXPECT_EQ(cuMemHostUnregister(&bytes), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(reinterpret_cast<void*>(gone)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(others), CUDA_SUCCESS);
}

TEST_F(answers, what_is_said_first_of_a_spoilt_capture) {
  CUevent other = nullptr;
  CUcontext of = nullptr;
  int priority = 99;
  ASSERT_EQ(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(other, t), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetPriority(s, &priority), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetCtx(s, &of), CUDA_SUCCESS);
  spoil();
  priority = 99, of = nullptr;
  EXPECT_EQ(cuStreamGetPriority(s, &priority), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuStreamGetCtx(s, &of), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_TRUE(priority == 99 && of == nullptr);
  EXPECT_EQ(cuStreamWaitEvent(s, event, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << "never recorded";
  EXPECT_EQ(cuStreamWaitEvent(s, other, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << "of no capture";
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAllocAsync(nullptr, 64, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  end_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  cuEventDestroy(other);
}

TEST_F(answers, what_is_forbidden_beside_a_capture) {
  CUmemoryPool pool = nullptr;
  CUdeviceptr block = 0;
  cuuint64_t zero = 0;
  unsigned value = 1;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&block, 4096), CUDA_SUCCESS);
  expect_forbidden_beside_a_capture([&] { return cuDeviceSetMemPool(0, pool); });
  expect_forbidden_beside_a_capture(
      [&] { return cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero); });
  expect_forbidden_beside_a_capture(
      [&] { return cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block); });
  expect_forbidden_beside_a_capture([&] { return cuCtxDisablePeerAccess(context); });
  expect_forbidden_beside_a_capture([&] { return cuStreamAttachMemAsync(s, block, 0, CU_MEM_ATTACH_HOST); });
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

// The capture is of this thread's alone, and forbids it nothing.
TEST_F(answers, flags_of_a_stream_that_captures_in_another_thread) {
  unsigned flags = 0;
  ASSERT_EQ(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  std::thread([&] { EXPECT_EQ(cuStreamGetFlags(s, &flags), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); }).join();
  end_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(answers, flags_of_another_stream_beside_a_capture) {
  unsigned flags = 42;
  ASSERT_EQ(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  end_capture(CUDA_SUCCESS);
}

TEST_F(answers, what_is_discarded_on_a_stream_that_captures_ends_the_capture) {
  CUdeviceptr managed = 0;
  std::size_t bytes = 1 << 21, first = 0;
  CUmemLocation to{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  ASSERT_EQ(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuMemDiscardAndPrefetchBatchAsync(&managed, &bytes, 1, &to, &first, 1, 0, s),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  end_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuMemFree(managed), CUDA_SUCCESS);
}

TEST_F(answers, of_memory_of_a_capture_only_the_capture_knows) {
  CUdeviceptr inside = 0, base = 42;
  std::size_t bytes = 42;
  unsigned long long told = 0;
  CUmemorytype type = CU_MEMORYTYPE_ARRAY;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* data[] = {&type};
  ASSERT_EQ(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&inside, 4096, s), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, inside), CUDA_ERROR_NOT_FOUND);
  EXPECT_TRUE(base == 0 && bytes == 0);
  for (CUpointer_attribute each : {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE})
    EXPECT_EQ(cuPointerGetAttribute(&told, each, inside), CUDA_ERROR_INVALID_VALUE) << each;
  EXPECT_EQ(cuPointerGetAttributes(1, which, data, inside), CUDA_SUCCESS);
  EXPECT_EQ(type, CUmemorytype{});
  EXPECT_EQ(cuMemsetD8Async(inside, 1, 4096, t), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8Async(inside, 1, 4096, s), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(inside, s), CUDA_SUCCESS);
  end_capture(CUDA_SUCCESS);
}

TEST_F(answers, devices_that_are_none) {
  int count = 0;
  CUmemoryPool made = nullptr, pool = nullptr;
  ASSERT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {count}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (int device : {-1, count}) {
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    EXPECT_EQ(cuMemPoolCreate(&made, &properties), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMemGetDefaultMemPool(&made, &properties.location, CU_MEM_ALLOCATION_TYPE_PINNED),
            CUDA_ERROR_INVALID_VALUE);
  for (CUmemAccess_flags each : {CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_NONE}) {
    access.flags = each;
    EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_DEVICE);
  }
}

TEST_F(answers, of_managed_memory) {
  constexpr std::size_t more_than_there_is = std::size_t{1} << 44;
  CUdeviceptr small = 0, large = 0, base = 0;
  std::size_t bytes = 0, before = 0, after = 0, total = 0;
  int value[4] = {85, 85, 85, 85};
  unsigned flags = 85;
  ASSERT_EQ(cuMemAllocManaged(&small, 9, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostGetFlags(&flags, reinterpret_cast<void*>(small + 4)), CUDA_SUCCESS);
  EXPECT_EQ(flags, 2u);
  EXPECT_EQ(cuMemRangeGetAttribute(value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, small, 4096),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(value[0], 85);
  EXPECT_EQ(cuMemRangeGetAttribute(value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, small, 9),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocManaged(&large, more_than_there_is, CU_MEM_ATTACH_HOST), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, large + more_than_there_is - 1), CUDA_SUCCESS);
  EXPECT_TRUE(base == large && bytes == more_than_there_is);
  EXPECT_EQ(cuMemFree(large), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAllocManaged(&large, ~std::size_t{0}, CU_MEM_ATTACH_HOST), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(after, before);
  EXPECT_EQ(cuMemFree(small), CUDA_SUCCESS);
}

TEST_F(answers, functions_of_old_versions) {
  for (char const* name : {"cuMemAlloc", "cuMemFree", "cuMemGetInfo"}) {
    void *old = nullptr, *now = nullptr;
    CUdriverProcAddressQueryResult status{};
    EXPECT_EQ(cuGetProcAddress(name, &old, 2000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(cuGetProcAddress(name, &now, 3020, 0, &status), CUDA_SUCCESS);
    EXPECT_TRUE(old != nullptr && now != nullptr && old != now) << name;
  }
}

// Asked once, 2,000,000 deep (H200, driver 580.159.04).
TEST_F(answers, a_thread_pushes_as_many_contexts_as_it_likes) {
  CUcontext mine = nullptr, popped = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&mine), CUDA_SUCCESS);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(cuCtxPushCurrent(mine), CUDA_SUCCESS);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, mine);
}

// cuMemFreeHost waits for no other context's work, which then faults; and a fault that was told is the whole
// process's, here a child's.
static bool all_say_that_it_faulted() {
  CUcontext mine = nullptr, other = nullptr, later = nullptr;
  CUstream there = nullptr;
  void* pinned = nullptr;
  CUdeviceptr block = 0;
  bool made = cuCtxGetCurrent(&mine) == CUDA_SUCCESS && cuCtxCreate(&other, nullptr, 0, 0) == CUDA_SUCCESS &&
              cuStreamCreate(&there, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
              cuCtxSetCurrent(mine) == CUDA_SUCCESS &&
              cuMemHostAlloc(&pinned, 1 << 20, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS &&
              cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(pinned), 1, 1 << 20, there) == CUDA_SUCCESS &&
              cuMemFreeHost(pinned) == CUDA_SUCCESS;
  return made && cuStreamSynchronize(there) == CUDA_ERROR_ILLEGAL_ADDRESS &&
         cuMemAlloc(&block, 4096) == CUDA_ERROR_ILLEGAL_ADDRESS &&
         cuCtxCreate(&later, nullptr, 0, 0) == CUDA_ERROR_ILLEGAL_ADDRESS &&
         cuCtxDestroy(other) == CUDA_SUCCESS;
}

TEST_F(answers, page_locked_memory_freed_under_another_contexts_work) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child that was only forked may not use the driver
  EXPECT_EXIT(std::exit(all_say_that_it_faulted() ? 0 : 1), testing::ExitedWithCode(0), "");
}
