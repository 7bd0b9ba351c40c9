// The table of segments: who contains an address, with segments inside segments.
#include "core/space/segment.hpp"

#include <gtest/gtest.h>

#include "tests/unit/space/region_checks.hpp"

namespace gpumem::space {
namespace {

constexpr std::uint64_t mib = 1ull << 20;

TEST(segment_table, finds_the_segment_of_every_address_of_it) {
  segment_table table;
  nobody who;
  segment* const s = table.add(mib, mib, &who);
  ASSERT_NE(s, nullptr);
  EXPECT_NE(s->index, 0u);
  EXPECT_EQ(&table[s->index], s);
  EXPECT_EQ(s->owner, &who);
  EXPECT_EQ(table.containing(mib - 1).in, nullptr);
  EXPECT_EQ(table.containing(mib).in, s);
  EXPECT_EQ(table.containing(2 * mib - 1).in, s);
  EXPECT_EQ(table.containing(2 * mib).in, nullptr);
  table.remove(s);
  EXPECT_EQ(table.containing(mib).in, nullptr);
}

TEST(segment_table, reuses_indices) {
  segment_table table;
  nobody who;
  std::uint32_t highest = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    segment* const s = table.add(i * mib, mib, &who);
    ASSERT_NE(s, nullptr);
    highest = std::max(highest, s->index);
    table.remove(s);
  }
  EXPECT_EQ(highest, 1u);
  for (std::uint64_t i = 1; i <= 3000; ++i) ASSERT_EQ(table.add(i * mib, mib, &who)->index, i);
  for (std::uint64_t i = 1; i <= 3000; ++i) ASSERT_EQ(table.containing(i * mib + 5).in->index, i);
}

TEST(segment_table, the_innermost_is_found_first) {
  segment_table table;
  nobody outer, inner;
  segment* const large = table.add(16 * mib, 16 * mib, &outer);
  segment* const small = table.add(16 * mib, mib, &inner);
  EXPECT_EQ(table.containing(16 * mib).in, small);
  EXPECT_EQ(table.containing(17 * mib).in, large);
  table.remove(small);
  EXPECT_EQ(table.containing(16 * mib).in, large);
}

// A pool of one large segment that serves slabs to bins and blocks to the program.
TEST(segment_table, the_outer_one_is_found_behind_any_number_of_inner_ones) {
  segment_table table;
  nobody outer, inner;
  segment* const large = table.add(1024 * mib, 1024 * mib, &outer);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_NE(table.add((1024 + i) * mib, mib, &inner), nullptr);
  EXPECT_EQ(table.containing((1024 + 50) * mib).owner, &inner);
  EXPECT_EQ(table.containing((1024 + 100) * mib).in, large);
  EXPECT_EQ(table.containing((1024 + 1000) * mib + 3).in, large);
  EXPECT_EQ(table.containing(2048 * mib).in, nullptr);
}

}  // namespace
}  // namespace gpumem::space
