// What the shim reports to the router: captures, streams and contexts that come and go, pools, forks.
#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

using tests::first_context;
using tests::stream;
using observe = route_fixture;

TEST_F(observe, a_capturing_streams_memory_is_the_drivers) {
  CUdeviceptr const before = must_get(1000, stream(1));
  capture_begins(first_context, stream(1));
  driver.capture(stream(1));
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, stream(1)));
  EXPECT_SERVED(give(before, stream(1)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(owns(before));
  // Others go on.
  CUdeviceptr const beside = must_get(1000, stream(2));
  EXPECT_SERVED(give(beside, stream(2)), CUDA_SUCCESS);
  EXPECT_SERVED(give(must_get(1000)), CUDA_SUCCESS);
  must_get(1000, CU_STREAM_LEGACY);
  driver.end_capture(stream(1));
  capture_ended(first_context, stream(1));
  EXPECT_SERVED(give(before, stream(1)), CUDA_SUCCESS);
}

TEST_F(observe, a_handle_used_again_is_another_stream) {
  driver.manual_events(true);
  CUdeviceptr const a = must_get(1000, stream(1));
  give(a, stream(1));
  stream_destroyed(first_context, stream(1));
  driver.new_stream(stream(1));
  stream_created(first_context, stream(1));
  EXPECT_NE(must_get(1000, stream(1)), a) << "freed on a stream that is gone and not known to be done";
  done();
  EXPECT_EQ(must_get(1000, stream(1)), a);
}

TEST_F(observe, streams_that_come_and_go_for_ever_keep_their_order) {
  for (int round = 0; round < 5000; ++round) {
    driver.new_stream(stream(1));
    stream_created(first_context, stream(1));
    CUdeviceptr const a = must_get(1000, stream(1));
    ASSERT_TRUE(give(a, stream(1)).served());
    ASSERT_EQ(must_get(1000, stream(1)), a) << "round " << round << " has no slot";
    ASSERT_TRUE(give(a, stream(1)).served());
    stream_destroyed(first_context, stream(1));
  }
}

TEST_F(observe, memory_of_a_context_that_is_gone_is_forgotten) {
  CUdeviceptr const a = must_get(1000);
  give(must_get(2000));
  context_gone(first_context);
  EXPECT_FALSE(owns(a));
  EXPECT_PASS(give(a));
  EXPECT_EQ(idle_bytes(first_context), 0u);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), 0u);
  // The handle may come back.
  CUdeviceptr const b = must_get(1000);
  EXPECT_TRUE(owns(b));
  EXPECT_SERVED(give(b), CUDA_SUCCESS);
}

TEST_F(observe, a_captures_end_is_not_missed_when_its_context_goes) {
  capture_begins(first_context, stream(1));
  context_gone(first_context);
  EXPECT_EQ(stream_order::active_captures.load(), 0);
}

TEST_F(observe, a_pool_of_the_programs_own_gets_the_ordered_calls) {
  CUdeviceptr const before = must_get(1000, stream(1));
  pool_chosen(0);
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, stream(1)));
  EXPECT_SERVED(give(before, stream(1)), CUDA_SUCCESS);
  must_get(1000);
  must_get(1000, stream(3), tests::second_context);
  pool_chosen(-1);
  pool_chosen(1 << 20);
}

TEST_F(observe, a_lost_context_is_the_drivers) {
  CUdeviceptr const a = must_get(1000);
  give(must_get(1000));
  driver.fail("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS, 1000);
  must_get(1ull << 24);  // the ladder asks, and hears it
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused));
  EXPECT_PASS(give(a));
}

TEST_F(observe, a_forked_child_knows_nothing) {
  CUdeviceptr const a = must_get(1000);
  left_behind.push_back(present);
  left_behind.push_back(resource::own_slots);
  stream_order::active_captures = 3;
  forked_child();
  EXPECT_FALSE(owns(a));
  EXPECT_PASS(give(a));
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused));
  EXPECT_EQ(synchronize_begins(first_context), 0u);
  EXPECT_EQ(stream_order::active_captures.load(), 0);
  start(make_pools, free_mode::deferred);
  EXPECT_TRUE(owns(must_get(1000)));
}

TEST_F(observe, what_was_in_use_before_the_first_request_is_kept) {
  constexpr std::uint64_t before = 700u << 20;
  auto& gauges = stats::gauges(0);
  stats::set(gauges.first_unseen, 0);
  stats::set(gauges.reserved, 0);  // what a test before this one left behind is no part of the fresh driver
  CUdeviceptr others = 0, past_the_hooks = 0;
  ASSERT_EQ(driver.allocate(&others, before), CUDA_SUCCESS);
  must_get(1 << 20);
  EXPECT_EQ(stats::get(gauges.first_unseen), before);
  ASSERT_EQ(driver.allocate(&past_the_hooks, 3u << 20), CUDA_SUCCESS);
  must_get(1u << 30);  // grows, and so looks again
  EXPECT_EQ(stats::get(gauges.first_unseen), before);
  EXPECT_EQ(stats::get(gauges.used) - stats::get(gauges.reserved), before + (3u << 20));
}

TEST_F(observe, the_first_look_waits_while_a_stream_captures) {
  auto& gauges = stats::gauges(0);
  stats::set(gauges.first_unseen, 0);
  stream_order::active_captures = 1;
  int const asked = driver.calls("cuMemGetInfo_v2");
  must_get(1000);
  EXPECT_EQ(driver.calls("cuMemGetInfo_v2"), asked);
  EXPECT_EQ(stats::get(gauges.first_unseen), 0u);
  stream_order::active_captures = 0;
}

TEST_F(observe, a_context_that_cannot_be_asked_is_passed_through) {
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, nullptr, reinterpret_cast<CUcontext>(0x999)));
}

}  // namespace
}  // namespace gpumem::route
