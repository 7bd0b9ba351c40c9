// A driver call of the library's own that fails leaves nothing behind in the thread: the capture mode and the
// current context are the program's again. And a question is asked again, but only where the driver could not
// find out.
#include "tests/unit/stream_order/fixture.hpp"

namespace gpumem::stream_order {
namespace {

struct questions_test : epochs_fixture {
  static CUstreamCaptureMode mode_of_thread() {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    driver::real.cuThreadExchangeStreamCaptureMode(&mode);
    CUstreamCaptureMode const found = mode;
    driver::real.cuThreadExchangeStreamCaptureMode(&mode);
    return found;
  }
  static CUcontext current() {
    CUcontext context = nullptr;
    driver::real.cuCtxGetCurrent(&context);
    return context;
  }
};

TEST_F(questions_test, the_threads_capture_mode_is_as_it_was) {
  for (int const failed : {1, 2, 3, 4, 5, 100}) {
    driver.fail("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_UNKNOWN, failed);
    { relaxed_mode const relaxed(true); }
    driver.fail("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_UNKNOWN, 0);
    EXPECT_EQ(mode_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL) << failed << " calls failed";
  }
  {
    relaxed_mode const relaxed(true);
    driver.fail("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_OUT_OF_MEMORY, 2);
  }
  EXPECT_EQ(mode_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(questions_test, the_current_context_is_as_it_was) {
  CUcontext const before = current();
  CUcontext const second = reinterpret_cast<CUcontext>(2);
  driver.set_context(second, 1);
  for (int const failed : {1, 2, 3}) {
    {
      scoped_context const there(second);
      ASSERT_TRUE(there.is_there());
      driver.fail("cuCtxPopCurrent_v2", CUDA_ERROR_UNKNOWN, failed);
    }
    EXPECT_EQ(current(), before) << failed << " calls failed";
  }
}

TEST_F(questions_test, whatever_the_code_was) {
  CUcontext const before = current();
  CUcontext const second = reinterpret_cast<CUcontext>(2);
  driver.set_context(second, 1);
  {
    scoped_context const there(second);
    ASSERT_TRUE(there.is_there());
    driver.fail("cuCtxPopCurrent_v2", CUDA_ERROR_DEVICE_UNAVAILABLE);
  }
  EXPECT_EQ(current(), before);
  {
    relaxed_mode const relaxed(true);
    driver.fail("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_DEVICE_UNAVAILABLE);
  }
  EXPECT_EQ(mode_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(questions_test, asked_again_where_the_driver_could_not_find_out) {
  int calls = 0;
  auto const after = [&calls](CUresult code, int failing) {
    calls = 0;
    return driver::asked([&calls, code, failing] { return ++calls > failing ? CUDA_SUCCESS : code; });
  };
  EXPECT_EQ(after(CUDA_ERROR_UNKNOWN, 0), CUDA_SUCCESS);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(after(CUDA_ERROR_UNKNOWN, 2), CUDA_SUCCESS);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(after(CUDA_ERROR_OUT_OF_MEMORY, 100), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(calls, 4);
  for (CUresult const answer :
       {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_NOT_READY}) {
    EXPECT_EQ(after(answer, 100), answer);
    EXPECT_EQ(calls, 1) << "that is an answer: " << answer;
  }
}

}  // namespace
}  // namespace gpumem::stream_order
