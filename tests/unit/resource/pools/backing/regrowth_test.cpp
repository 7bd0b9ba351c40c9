// What counts as memory that is taken again, and how much a growth then takes.
#include "core/resource/pools/backing/regrowth.hpp"

#include <gtest/gtest.h>

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct regrowth_test : testing::Test {
  // 64 GiB, of which 8 GiB was given back and taken again where memory is short.
  regrowth_test() {
    made.note(64 * gib, 64 * gib, true);
    made.note(8 * gib, 64 * gib, true);
  }
  regrowth made;
};

TEST_F(regrowth_test, what_was_never_had_is_not_taken_again) {
  regrowth fills;
  EXPECT_FALSE(fills.is_usual());
  for (std::uint64_t i = 1; i <= 64; ++i) fills.note(1 * gib, i * gib, true);
  EXPECT_FALSE(fills.is_usual());
  fills.note(4 * gib, 66 * gib, true);
  EXPECT_FALSE(fills.is_usual()) << "half of it is new";
}

TEST_F(regrowth_test, an_eighth_of_the_most_makes_it_usual) {
  EXPECT_TRUE(made.is_usual());
  regrowth less;
  less.note(8 * gib, 8 * gib, true);
  less.note(1 * gib - 2 * mib, 8 * gib, true);
  EXPECT_FALSE(less.is_usual());
  less.note(2 * mib, 7 * gib, true);
  EXPECT_TRUE(less.is_usual()) << "in all";
}

TEST_F(regrowth_test, a_growth_with_plenty_left_ends_it) {
  made.note(1 * gib, 2 * gib, false);
  EXPECT_FALSE(made.is_usual());
}

TEST_F(regrowth_test, a_remainder_that_serves_no_second_request_is_taken_as_well) {
  std::uint64_t const kept = 64 * mib;  // 1/1024 of the most
  EXPECT_EQ(made.with_remainder(1 * gib, 1 * gib + 300 * mib + kept), 1 * gib + 300 * mib);
  EXPECT_EQ(made.with_remainder(1 * gib, 2 * gib - 2 * mib + kept), 2 * gib - 2 * mib);
  EXPECT_EQ(made.with_remainder(1 * gib, 2 * gib + kept), 1 * gib) << "it serves one";
  EXPECT_EQ(made.with_remainder(1 * gib, 1 * gib + 301 * mib + kept), 1 * gib + 300 * mib) << "whole pages";
}

TEST_F(regrowth_test, a_little_stays_with_the_driver) {
  EXPECT_EQ(made.with_remainder(1 * gib, 1 * gib + 4 * mib), 1 * gib);
  EXPECT_EQ(made.with_remainder(1 * gib, 1 * gib), 1 * gib);
  EXPECT_EQ(made.with_remainder(1 * gib, 0), 1 * gib) << "the driver is to refuse it";
}

TEST_F(regrowth_test, of_a_small_device_enough_stays_for_what_the_driver_has_in_parts_of_pages) {
  regrowth small;
  small.note(4 * gib, 4 * gib, true);
  EXPECT_EQ(small.with_remainder(512 * mib, 600 * mib), 584 * mib);
}

TEST_F(regrowth_test, small_requests_take_no_more) {
  EXPECT_EQ(made.with_remainder(63 * mib, 100 * mib), 63 * mib);
}

}  // namespace
}  // namespace gpumem::resource
