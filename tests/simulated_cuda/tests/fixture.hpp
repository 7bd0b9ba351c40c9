// A context, a hand-moved clock and an empty list of hazards for each test of the stand-in driver.
// Included by the tests beside it, which link the stand-in driver directly.
// The tests are about the simulator itself: each rule is shown to hold and to be broken when it should be.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include "simulated.h"

class simulated_test : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
    simulatedClockManual(1);
    simulatedHazardClear();
    simulatedCountersReset();
    cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
    cuStreamCreate(&t, CU_STREAM_NON_BLOCKING);
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  }
  void TearDown() override {
    simulatedRunAll();
    EXPECT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
    simulatedHazardClear();
  }

  static CUresult kernel(CUstream on, CUdeviceptr address, size_t bytes, unsigned long long duration = 1000) {
    simulated_access const access = {address, bytes, 1};
    return simulatedLaunch(on, &access, 1, duration);
  }

  CUcontext context = nullptr;
  CUstream s = nullptr, t = nullptr;
  CUevent event = nullptr;
};
