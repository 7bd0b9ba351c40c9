// When a growth would leave a pool with much more than its program ever needed at once, and what is done
// about it: by what was in use, by what waits for the GPU, within a part of the time.
#include "core/resource/pools/backing/excess.hpp"

#include <gtest/gtest.h>

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;

TEST(excess, a_pool_may_have_two_and_a_half_times_what_was_in_use_or_waited) {
  excess e;
  EXPECT_EQ(e.note_growth(500 * mib, {.reserved = 500 * mib, .in_use = 500 * mib}, 1).goes, 0u);
  EXPECT_EQ(e.note_growth(500 * mib, {.reserved = 2000 * mib}, 1).goes, 0u) << "1,000 MiB were in use";
  excess::remedy const now = e.note_growth(600 * mib, {.reserved = 2000 * mib}, 1);
  EXPECT_EQ(now.goes, 100 * mib);
  EXPECT_EQ(now.wait_ns, 0u);
  EXPECT_EQ(e.note_growth(600 * mib, {.reserved = 2000 * mib, .pending = 500 * mib}, 1).goes, 0u)
      << "which the GPU needs";
}

TEST(excess, little_is_never_too_much) {
  excess e;
  EXPECT_FALSE(e.note_growth(6 * mib, {.reserved = 250 * mib}, 1).needed);
  EXPECT_EQ(e.note_growth(7 * mib, {.reserved = 250 * mib}, 1).goes, 1 * mib);
}

constexpr excess::state small_with_empty{.reserved = 10 * mib, .in_use = 4 * mib, .empty = 4 * mib};

TEST(excess, of_a_small_pool_empty_segments_go_four_times) {
  excess e;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(e.note_growth(5 * mib, small_with_empty, 1).goes, 4 * mib) << i;
  EXPECT_FALSE(e.note_growth(5 * mib, small_with_empty, 1).needed);
}

TEST(excess, of_a_small_pool_nothing_goes_that_is_needed_at_once) {
  excess e;
  EXPECT_FALSE(e.note_growth(5 * mib, {.reserved = 4 * mib, .in_use = 4 * mib}, 1).needed);
  EXPECT_FALSE(e.note_growth(5 * mib, {.reserved = 10 * mib, .in_use = 4 * mib}, 1).needed)
      << "none is empty";
  EXPECT_FALSE(e.note_growth(5 * mib, {.reserved = 12 * mib, .in_use = 4 * mib, .empty = 4 * mib}, 1).needed)
      << "not small";
  excess::state const busy{.reserved = 10 * mib, .in_use = 4 * mib, .pending = 6 * mib, .empty = 4 * mib};
  EXPECT_FALSE(e.note_growth(5 * mib, busy, 1).needed);
  EXPECT_FALSE(e.note_growth(5 * mib, small_with_empty, 1).needed) << "as much was there at once";
}

TEST(excess, beyond_three_times_what_was_in_use_and_plenty_it_waits) {
  excess e;
  e.note_growth(400 * mib, {}, 1);
  excess::state const waits{.reserved = 1200 * mib, .pending = 1200 * mib};
  excess::remedy const now = e.note_growth(100 * mib, waits, 1);
  EXPECT_EQ(now.goes, 100 * mib);
  EXPECT_EQ(now.wait_ns, 20 * millisecond);
  excess::state const little{.reserved = 1200 * mib, .pending = 1200 * mib, .plenty = 2 * gib};
  EXPECT_EQ(e.note_growth(100 * mib, little, 1).goes, 0u);
}

TEST(excess, each_growth_may_give_back_for_as_long_as_a_pair_takes_natively) {
  excess e;
  excess::state const much{.reserved = 8 * gib};
  excess::remedy const small = e.note_growth(mib, much, 1);
  EXPECT_EQ(small.give_ns, 2 * millisecond);
  EXPECT_GT(e.note_growth(gib, much, 1).give_ns, 2 * millisecond);
}

TEST(excess, it_takes_a_16th_of_the_time_and_what_growths_earn_once_5_ms_are_spent) {
  excess e;
  excess::state const much{.reserved = 4 * gib};
  EXPECT_NE(e.note_growth(mib, much, 1000 * millisecond).goes, 0u);
  e.spent(16 * millisecond);
  excess::remedy const later = e.note_growth(mib, much, 1000 * millisecond + 150 * millisecond);
  EXPECT_TRUE(later.needed);
  EXPECT_EQ(later.goes, 0u);
  EXPECT_NE(e.note_growth(mib, much, 1000 * millisecond + 180 * millisecond).goes, 0u);
  int growths = 0;
  e.spent(3 * millisecond);
  while (e.note_growth(64 * mib, much, 1000 * millisecond + 180 * millisecond).goes == 0) ++growths;
  EXPECT_GT(growths, 2);
  EXPECT_LT(growths, 20);
}

TEST(excess, after_a_wait_in_vain_there_is_none_until_some_work_is_done) {
  excess e;
  EXPECT_TRUE(e.may_wait(7));
  e.note_in_vain(7);
  EXPECT_FALSE(e.may_wait(7));
  EXPECT_TRUE(e.may_wait(8));
}

}  // namespace
}  // namespace gpumem::resource
