// When a refusal is known without asking: only for a while, only while no memory came free, and never where
// the driver could find some in pools of its own.
#include "core/upstream/known_refusals.hpp"

#include <gtest/gtest.h>

#include "core/stream_order/relaxed_mode.hpp"
#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::upstream {
namespace {

constexpr std::uint64_t mib = 1ull << 20;

struct known_refusals_test : testing::Test {
  tests::fake_driver& driver = tests::fake_driver::instance();
  CUdeviceptr taken = 0;

  void SetUp() override {
    driver.reset();
    driver.set_capacity(100 * mib);
    driver_keeps_memory = false;
    ASSERT_EQ(driver.allocate(&taken, 90 * mib), CUDA_SUCCESS);
  }
  void TearDown() override { driver_keeps_memory = false; }
};

TEST_F(known_refusals_test, nothing_is_certain_before_the_driver_has_refused) {
  EXPECT_FALSE(known_refusals::is_certain(1, 50 * mib));
}

TEST_F(known_refusals_test, what_is_larger_than_what_is_free_would_be_refused_again) {
  known_refusals::note(2, 50 * mib);
  EXPECT_TRUE(known_refusals::is_certain(2, 50 * mib));
  EXPECT_TRUE(known_refusals::is_certain(2, 60 * mib));
  EXPECT_FALSE(known_refusals::is_certain(3, 50 * mib)) << "another device";
  known_refusals::note(2, 42 * mib);
  EXPECT_FALSE(known_refusals::is_certain(2, 42 * mib))
      << "the driver may have some that it does not call free";
}

TEST_F(known_refusals_test, a_smaller_request_may_be_served_by_moving_managed_memory_away) {
  known_refusals::note(8, 50 * mib);
  EXPECT_FALSE(known_refusals::is_certain(8, 49 * mib));
}

TEST_F(known_refusals_test, memory_that_came_free_is_asked_for) {
  known_refusals::note(4, 50 * mib);
  driver.set_capacity(101 * mib);
  EXPECT_FALSE(known_refusals::is_certain(4, 50 * mib)) << "also where it does not look enough";
  ASSERT_EQ(driver.release(taken), CUDA_SUCCESS);
  EXPECT_FALSE(known_refusals::is_certain(4, 50 * mib));
}

TEST_F(known_refusals_test, a_refusal_with_memory_left_tells_nothing) {
  known_refusals::note(5, 5 * mib);
  EXPECT_FALSE(known_refusals::is_certain(5, 50 * mib));
}

// 10 MiB are free.
TEST_F(known_refusals_test, what_comes_back_counts_with_the_least_that_was_lacking) {
  EXPECT_FALSE(known_refusals::is_hopeless(9, 90 * mib, 0)) << "nothing was refused";
  known_refusals::note(9, 60 * mib);
  known_refusals::note(9, 50 * mib);
  known_refusals::note(9, 70 * mib);
  EXPECT_TRUE(known_refusals::is_hopeless(9, 60 * mib, 10 * mib)) << "10, 10, and less than 40";
  EXPECT_FALSE(known_refusals::is_hopeless(9, 60 * mib, 11 * mib));
  EXPECT_FALSE(known_refusals::is_hopeless(10, 60 * mib, 0)) << "another device";
  driver.set_capacity(101 * mib);
  EXPECT_FALSE(known_refusals::is_hopeless(9, 60 * mib, 10 * mib)) << "more is free";
  known_refusals::note(9, 5 * mib);
  EXPECT_FALSE(known_refusals::is_hopeless(9, 90 * mib, 0)) << "a refusal with memory left tells nothing";
}

TEST_F(known_refusals_test, what_may_come_from_the_drivers_pools_is_not_hopeless) {
  known_refusals::note(11, 50 * mib);
  EXPECT_TRUE(known_refusals::is_hopeless(11, 60 * mib, 0));
  note_driver_keeps_memory();
  EXPECT_FALSE(known_refusals::is_hopeless(11, 60 * mib, 0));
  driver_keeps_memory = false;
  timespec const pause{.tv_sec = 0, .tv_nsec = 120'000'000};
  nanosleep(&pause, nullptr);
  EXPECT_FALSE(known_refusals::is_hopeless(11, 60 * mib, 0)) << "believed for a short while";
}

TEST_F(known_refusals_test, the_drivers_own_pools_may_have_some) {
  known_refusals::note(6, 50 * mib);
  note_driver_keeps_memory();
  EXPECT_FALSE(known_refusals::is_certain(6, 50 * mib));
}

TEST_F(known_refusals_test, what_is_free_is_all_that_there_is_unless_the_driver_keeps_some) {
  EXPECT_EQ(known_refusals::all_free(), 10 * mib);
  stream_order::active_captures = 1;
  EXPECT_EQ(known_refusals::all_free(), std::nullopt) << "not asked beside a capture";
  stream_order::active_captures = 0;
  note_driver_keeps_memory();
  EXPECT_EQ(known_refusals::all_free(), std::nullopt);
}

TEST_F(known_refusals_test, it_is_believed_for_a_short_while) {
  known_refusals::note(7, 50 * mib);
  timespec const pause{.tv_sec = 0, .tv_nsec = 120'000'000};
  nanosleep(&pause, nullptr);
  EXPECT_FALSE(known_refusals::is_certain(7, 50 * mib));
}

}  // namespace
}  // namespace gpumem::upstream
