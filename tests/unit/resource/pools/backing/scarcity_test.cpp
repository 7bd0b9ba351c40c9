// When memory is scarce, and how much of a segment may then stay idle beside a block.
#include "core/resource/pools/backing/scarcity.hpp"

#include <gtest/gtest.h>

namespace gpumem::resource {
namespace {

struct scarcity_test : testing::Test {
  static constexpr std::uint64_t gib = 1ull << 30;
  static constexpr std::uint64_t all = 80 * gib;
  scarcity now;
};

TEST_F(scarcity_test, is_there_from_half_of_all_memory_on) {
  EXPECT_FALSE(now.is_there(80 * gib)) << "nobody knows how much that is";
  now.note_growth(gib, all);
  EXPECT_FALSE(now.is_there(40 * gib));
  EXPECT_TRUE(now.is_there(40 * gib + 1));
  EXPECT_FALSE(now.may_be_there(40 * gib));
  EXPECT_TRUE(now.may_be_there(40 * gib + 1));
}

TEST_F(scarcity_test, stays_while_a_program_comes_back_and_not_for_ever) {
  now.note_growth(76 * gib, all);
  EXPECT_TRUE(now.is_there(8 * gib));
  int growths = 0;
  for (; now.is_there(8 * gib) && growths < 1000; ++growths) now.note_growth(8 * gib, all);
  EXPECT_GT(growths, 100);
  EXPECT_LT(growths, 300);
}

TEST_F(scarcity_test, the_fuller_the_less_may_be_left_over) {
  now.note_growth(gib, all);
  EXPECT_EQ(now.left_over(1000, 40 * gib), 250u);
  EXPECT_EQ(now.left_over(1000, 72 * gib), 50u);
  EXPECT_EQ(now.left_over(1000, 90 * gib), 0u);
  now.note_growth(76 * gib, all);
  EXPECT_EQ(now.left_over(1000, 8 * gib), 25u) << "it will come back";
}

TEST_F(scarcity_test, is_not_where_the_driver_refuses_more_than_one_growth_in_eight) {
  now.note_growth(gib, all);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(now.is_there(76 * gib));
    now.note_refusal();
  }
  EXPECT_FALSE(now.is_there(76 * gib));
  now.note_growth(76 * gib, all);
  EXPECT_TRUE(now.is_there(76 * gib));
  for (int i = 0; i < 100; ++i) now.note_refusal();
  for (int i = 0; i < 32; ++i) now.note_growth(76 * gib, all);
  EXPECT_FALSE(now.is_there(76 * gib));
  now.note_growth(76 * gib, all);
  EXPECT_TRUE(now.is_there(76 * gib));
}

}  // namespace
}  // namespace gpumem::resource
