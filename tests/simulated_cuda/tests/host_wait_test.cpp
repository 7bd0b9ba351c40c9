// A thread that waits in the driver runs what is due there; while that is a host function, other threads are
// let in and may end what the wait began with. Nothing of it may be touched afterwards: AddressSanitizer's
// build sees each touch.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "fixture.hpp"

namespace {

class host_wait : public simulated_test {
 protected:
  // `waits` runs in a thread of its own and meets a host function of `s`, inside of which `meanwhile` runs
  // here.
  void during(std::function<void()> waits, std::function<void()> meanwhile) {
    ASSERT_EQ(cuLaunchHostFunc(s, hold, this), CUDA_SUCCESS);
    if (after_launch) after_launch();
    std::thread waiter([&] {
      cuCtxSetCurrent(context);
      waits();
    });
    while (!entered) std::this_thread::yield();
    meanwhile();
    go = true;
    waiter.join();
  }
  std::function<void()> after_launch;

 private:
  static void CUDA_CB hold(void* self) {
    auto& test = *static_cast<host_wait*>(self);
    test.entered = true;
    while (!test.go) std::this_thread::yield();
  }
  std::atomic<bool> entered{false}, go{false};
};

TEST_F(host_wait, an_event_may_go_while_it_is_waited_for) {
  after_launch = [&] { cuEventRecord(event, s); };
  during([&] { EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS); },
         [&] { EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS); });
}

TEST_F(host_wait, a_stream_may_go_while_a_copy_waits_for_its_end) {
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAlloc(&block, 4096), CUDA_SUCCESS);
  char bytes[16];
  CUstream gone = t;
  after_launch = [&] {
    cuEventRecord(event, s);
    cuStreamWaitEvent(gone, event, 0);
  };
  during([&] { EXPECT_EQ(cuMemcpyDtoHAsync(bytes, block, sizeof bytes, gone), CUDA_SUCCESS); },
         [&] { EXPECT_EQ(cuStreamDestroy(gone), CUDA_SUCCESS); });
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

// Whoever retains it meanwhile gets the next one: what was retained must not end.
TEST_F(host_wait, a_primary_context_that_is_ending_is_not_retained) {
  CUcontext primary = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
  after_launch = [&] {
    cuEventRecord(event, s);
    cuCtxSetCurrent(primary);
    CUstream of_primary = nullptr;
    cuStreamCreate(&of_primary, CU_STREAM_NON_BLOCKING);
    cuStreamWaitEvent(of_primary, event, 0);
    cuCtxSetCurrent(context);
  };
  std::thread retainer;
  std::atomic<bool> asks{false};
  during([&] { EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS); },
         [&] {
           retainer = std::thread([&] {
             asks = true;
             CUcontext next = nullptr;
             EXPECT_EQ(cuDevicePrimaryCtxRetain(&next, 0), CUDA_SUCCESS);
             EXPECT_EQ(cuCtxSetCurrent(next), CUDA_SUCCESS);
           });
           while (!asks) std::this_thread::yield();
           std::this_thread::sleep_for(
               std::chrono::milliseconds(20));  // time to go wrong; enough in the usual case
         });
  retainer.join();
  ASSERT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

}  // namespace
