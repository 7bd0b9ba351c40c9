// The happens-before checker: it must find each seeded unsafe reuse and stay silent for each ordered one.
// An "allocator" here is the test itself: it notes that one address belongs to A, then to B.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "fixture.hpp"

class order : public simulated_test {
 protected:
  void SetUp() override {
    simulated_test::SetUp();
    ASSERT_EQ(cuMemAlloc(&block, bytes), CUDA_SUCCESS);
  }
  void a_uses_and_frees(CUstream on) {
    simulatedNoteAllocate(block, bytes, nullptr);
    ASSERT_EQ(kernel(on, block, bytes, 1'000'000), CUDA_SUCCESS);
    simulatedNoteFree(block, nullptr);
  }
  void b_uses(CUstream on) {
    simulatedNoteAllocate(block, bytes, nullptr);
    ASSERT_EQ(kernel(on, block, bytes), CUDA_SUCCESS);
  }
  static constexpr size_t bytes = 4u << 20;
  CUdeviceptr block = 0;
};

TEST_F(order, no_wait_on_another_stream_is_found) {
  a_uses_and_frees(s);
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  EXPECT_NE(std::string(simulatedHazardText(0)).find("unordered reuse"), std::string::npos);
}

TEST_F(order, time_alone_orders_nothing) {
  a_uses_and_frees(s);
  simulatedRunAll();
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 1u);
}

TEST_F(order, same_stream_is_silent) {
  a_uses_and_frees(s);
  b_uses(s);
  EXPECT_EQ(simulatedHazardCount(), 0u);
}

TEST_F(order, event_wait_is_silent) {
  a_uses_and_frees(s);
  cuEventRecord(event, s);
  cuStreamWaitEvent(t, event, 0);
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 0u);
}

TEST_F(order, event_recorded_before_the_work_is_found) {
  cuEventRecord(event, s);
  a_uses_and_frees(s);
  cuStreamWaitEvent(t, event, 0);
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 1u);
}

TEST_F(order, event_of_the_wrong_stream_is_found) {
  a_uses_and_frees(s);
  cuEventRecord(event, t);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 1u);
}

TEST_F(order, successful_query_is_silent_and_unsuccessful_is_found) {
  a_uses_and_frees(s);
  cuEventRecord(event, s);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  simulatedNoteFree(block, nullptr);
  cuEventRecord(event, t);
  simulatedAdvance(10'000'000);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  b_uses(s);
  EXPECT_EQ(simulatedHazardCount(), 1u);
}

TEST_F(order, context_event_covers_all_streams_up_to_its_record) {
  a_uses_and_frees(s);
  ASSERT_EQ(cuCtxRecordEvent(context, event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  simulatedAdvance(10'000'000);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 0u);
  simulatedNoteFree(block, nullptr);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS) << "the old record says nothing about B";
  b_uses(s);
  EXPECT_EQ(simulatedHazardCount(), 1u);
}

TEST_F(order, context_event_covers_destroyed_streams) {
  a_uses_and_frees(s);
  ASSERT_EQ(cuStreamDestroy(s), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxRecordEvent(context, event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 0u);
}

TEST_F(order, new_stream_at_an_old_handle_is_not_the_old_stream) {
  a_uses_and_frees(s);
  cuStreamDestroy(s);
  std::vector<CUstream> made(8);
  for (CUstream& each : made) {
    cuStreamCreate(&each, CU_STREAM_NON_BLOCKING);
  }
  simulatedNoteAllocate(block, bytes, nullptr);
  for (CUstream each : made) kernel(each, block, bytes);
  EXPECT_EQ(simulatedHazardCount(), 1u) << "one per earlier access: said once";
}

TEST_F(order, legacy_stream_orders_blocking_streams_only) {
  CUstream blocking = nullptr;
  cuStreamCreate(&blocking, CU_STREAM_DEFAULT);
  a_uses_and_frees(blocking);
  b_uses(CU_STREAM_LEGACY);
  EXPECT_EQ(simulatedHazardCount(), 0u);
  simulatedNoteFree(block, nullptr);
  b_uses(blocking);
  EXPECT_EQ(simulatedHazardCount(), 0u);
  simulatedNoteFree(block, nullptr);
  b_uses(s);
  EXPECT_EQ(simulatedHazardCount(), 2u) << "against the work on each of the two streams";
}

TEST_F(order, order_passes_through_an_unused_allocation) {
  a_uses_and_frees(s);
  simulatedNoteAllocate(block, bytes, nullptr);  // B never touches it
  simulatedNoteFree(block, nullptr);
  b_uses(t);
  EXPECT_EQ(simulatedHazardCount(), 1u);
}

TEST_F(order, a_part_of_the_block_counts) {
  a_uses_and_frees(s);
  simulatedNoteAllocate(block + 4096, 512, nullptr);
  kernel(t, block + 4096, 512);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  simulatedNoteAllocate(block + 8192, 512, nullptr);
  cuCtxSynchronize();
  kernel(t, block + 8192, 512);
  EXPECT_EQ(simulatedHazardCount(), 1u);
}

TEST_F(order, a_fill_by_the_allocator_is_checked_too) {
  a_uses_and_frees(s);
  cuMemsetD8Async(block, 0xee, bytes, t);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  b_uses(s);
  EXPECT_EQ(simulatedHazardCount(), 2u) << "B on s is not ordered after the fill on t";
}

TEST_F(order, two_owners_at_once_and_use_after_free) {
  simulatedNoteAllocate(block, 4096, nullptr);
  simulatedNoteAllocate(block + 512, 512, nullptr);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  simulatedNoteFree(block + 512, nullptr);
  kernel(s, block + 512, 512);
  EXPECT_EQ(simulatedHazardCount(), 2u);
}

TEST_F(order, memory_that_no_one_allocated) {
  kernel(s, 0x1000, 16);
  EXPECT_EQ(simulatedHazardCount(), 1u);
}

TEST_F(order, the_drivers_own_reuse_is_silent) {
  for (int round = 0; round < 200; ++round) {
    CUstream const on = round % 3 == 0 ? t : s;
    CUdeviceptr p = 0;
    ASSERT_EQ(cuMemAllocAsync(&p, 1u << 20, on), CUDA_SUCCESS);
    simulatedNoteAllocate(p, 1u << 20, on);
    kernel(on, p, 1u << 20, 3000);
    simulatedNoteFree(p, on);
    if (round % 7 == 0) {
      cuMemFree(p);
    } else {
      cuMemFreeAsync(p, on);
    }
    CUdeviceptr q = 0;
    ASSERT_EQ(cuMemAlloc(&q, 3u << 20), CUDA_SUCCESS);
    simulatedNoteAllocate(q, 3u << 20, nullptr);
    kernel(round % 2 == 0 ? s : t, q, 3u << 20, 700);
    simulatedNoteFree(q, nullptr);
    if (round % 5 == 0) {
      cuMemFreeAsync(q, round % 2 == 0 ? s : t);
    } else {
      cuMemFree(q);
    }
    simulatedAdvance(1000);
  }
  EXPECT_EQ(simulatedHazardCount(), 0u) << simulatedHazardText(0);
}

// The host function frees another one inside of the call that is refused, in the same thread.
TEST_F(order, a_refused_free_lives_on_whatever_else_is_freed_meanwhile) {
  CUdeviceptr blocks[2] = {};
  for (CUdeviceptr& p : blocks) {
    ASSERT_EQ(cuMemAlloc(&p, 4096), CUDA_SUCCESS);
    simulatedNoteAllocate(p, 4096, nullptr);
  }
  ASSERT_EQ(simulatedLive(0), 8192u);
  simulatedNoteFree(blocks[0], nullptr);
  simulatedNoteFree(blocks[1], nullptr);
  simulatedNoteFreeRefused(blocks[1]);
  simulatedNoteFreeRefused(blocks[0]);
  EXPECT_EQ(simulatedLive(0), 8192u);
  simulatedNoteFree(blocks[0], nullptr);
  EXPECT_EQ(cuMemFree(blocks[0]), CUDA_SUCCESS);
  CUdeviceptr again = 0;
  ASSERT_EQ(cuMemAlloc(&again, 1024), CUDA_SUCCESS);
  ASSERT_EQ(again, blocks[0]);
  simulatedNoteAllocate(again, 1024, nullptr);
  simulatedNoteFreeRefused(again);
  EXPECT_EQ(simulatedLive(0), 4096u + 1024u)
      << "an allocation of its own, whatever was said of the one before";
  simulatedNoteFree(again, nullptr);
  simulatedNoteFree(blocks[1], nullptr);
  EXPECT_EQ(cuMemFree(again), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(blocks[1]), CUDA_SUCCESS);
  EXPECT_EQ(simulatedLive(0), 0u);
  EXPECT_EQ(simulatedHazardCount(), 0u) << simulatedHazardText(0);
}

TEST_F(order, many_threads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] {
      cuCtxSetCurrent(context);
      CUstream own = nullptr;
      cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
      for (int round = 0; round < 300; ++round) {
        CUdeviceptr p = 0;
        if (cuMemAllocAsync(&p, 1u << 16, own) != CUDA_SUCCESS) continue;
        simulatedNoteAllocate(p, 1u << 16, own);
        kernel(own, p, 1u << 16);
        simulatedNoteFree(p, own);
        cuMemFreeAsync(p, own);
        if (round % 50 == 0) cuStreamSynchronize(own);
      }
      cuStreamDestroy(own);
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(simulatedHazardCount(), 0u) << simulatedHazardText(0);
}
