// Limits for calls that no chain serves: who refuses first, and what counts against a limit.
#include "core/route/limits.hpp"

#include "core/resource/adaptors/budget.hpp"
#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

using tests::first_context;
using tests::stream;
using limits = route_fixture;

// A limit would refuse it with another code, and the capture would go on.
TEST_F(limits, what_a_capture_forbids_is_refused_for_that_and_not_by_a_limit) {
  constexpr std::uint64_t mib = 1 << 20;
  resource::budget& b = *resource::budget::find_or_make({.name = "limit", .device = 0, .limit = 2 * mib});
  observed_request const wanted{.device = 0, .bytes = 3 * mib};
  std::uint64_t const noted = stats::local().devices[0].out_of_memory;
  capture_begins(first_context, stream(1), CU_STREAM_CAPTURE_MODE_GLOBAL);
  driver.fail("cuMemFree_v2", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(admit(wanted), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(stats::local().devices[0].out_of_memory, noted);
  EXPECT_EQ(admit(wanted), CUDA_ERROR_OUT_OF_MEMORY) << "a thread that exchanged its mode";
  int const asked = driver.calls("cuMemFree_v2");
  EXPECT_EQ(admit({.device = 0, .bytes = 3 * mib, .captures_forbid = false}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(admit({.device = 0, .bytes = mib}), CUDA_SUCCESS) << "the driver itself refuses it";
  EXPECT_EQ(driver.calls("cuMemFree_v2"), asked);
  capture_ended(first_context, stream(1));
  EXPECT_EQ(admit(wanted), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.calls("cuMemFree_v2"), asked) << "nothing captures: nobody is asked";
  withdraw(0, mib);
  EXPECT_EQ(b.left(), 2 * mib);
  resource::budget::forget_all();
}

// Its size may be known only later. Memory of devices that have no limit, and will have none, is not counted.
TEST_F(limits, what_was_taken_before_a_limit_is_there_counts_against_it) {
  constexpr std::uint64_t mib = 1 << 20;
  static bool is_known;
  is_known = false;
  use_limits([](int device) {
    if (is_known && device == 0)
      resource::budget::find_or_make({.name = "late", .device = 0, .limit = 2 * mib});
    return is_known;
  });
  EXPECT_EQ(admit({.device = 0, .bytes = mib}), CUDA_SUCCESS);
  EXPECT_TRUE(may_have_limits(0));
  is_known = true;
  EXPECT_EQ(admit({.device = 0, .bytes = 2 * mib}), CUDA_ERROR_OUT_OF_MEMORY);
  withdraw(0, mib);
  EXPECT_EQ(admit({.device = 0, .bytes = 2 * mib}), CUDA_SUCCESS);
  withdraw(0, 2 * mib);
  EXPECT_FALSE(may_have_limits(1));
  EXPECT_EQ(admit({.device = 1, .bytes = 64 * mib}), CUDA_SUCCESS);
  withdraw(1, 64 * mib);
  use_limits(nullptr);
}

}  // namespace
}  // namespace gpumem::route
