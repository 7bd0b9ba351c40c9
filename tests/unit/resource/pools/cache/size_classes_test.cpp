// Classes of sizes: every size fits its class, wastes no more than promised, and no two classes share a row.
#include "core/resource/pools/cache/size_classes.hpp"

#include <gtest/gtest.h>

namespace gpumem::resource::size_classes {
namespace {

TEST(size_classes, waste_is_at_most_a_sixteenth) {
  for (std::uint32_t units = 1; units <= 2 * largest; ++units) {
    std::uint32_t const rounded = round_up(units);
    ASSERT_GE(rounded, units);
    ASSERT_LE(16 * (rounded - units), units) << units;
    ASSERT_EQ(round_up(rounded), rounded) << units;
  }
}

TEST(size_classes, small_and_large_sizes_are_exact) {
  for (std::uint32_t units = 1; units <= 16; ++units) EXPECT_EQ(round_up(units), units);
  EXPECT_EQ(round_up(largest + 1), largest + 1);
  EXPECT_EQ(round_up(~0u), ~0u);
}

TEST(size_classes, each_class_has_an_index_of_its_own) {
  std::uint32_t classes = 0;
  std::uint32_t last = 0;
  for (std::uint32_t units = 1; units <= largest; ++units) {
    ASSERT_LT(index_of(units), count);
    ASSERT_EQ(index_of(units), index_of(round_up(units))) << units;
    if (round_up(units) == last) continue;
    last = round_up(units);
    ASSERT_EQ(index_of(units), classes) << units;
    ++classes;
  }
  EXPECT_EQ(classes, count);
}

}  // namespace
}  // namespace gpumem::resource::size_classes
