// When a pool that spares memory keeps sizes apart: at a new highest with much idle, and for so many growths.
#include "core/resource/pools/backing/segment_mixing.hpp"

#include <gtest/gtest.h>

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

TEST(segment_mixing, a_new_highest_with_much_idle_between_blocks_begins_it) {
  segment_mixing m;
  m.note_growth(32 * mib, 320 * mib, 0, 80 * mib);
  EXPECT_FALSE(m.is_avoided()) << "a quarter is usual";
  m.note_growth(2 * mib, 320 * mib, 0, 200 * mib);
  EXPECT_FALSE(m.is_avoided()) << "no more than before";
  m.note_growth(64 * mib, 352 * mib, 64 * mib, 200 * mib);
  EXPECT_FALSE(m.is_avoided()) << "what is empty goes back first";
  m.note_growth(32 * mib, 352 * mib, 0, 89 * mib);
  EXPECT_TRUE(m.is_avoided());
  segment_mixing few;
  few.note_growth(2 * mib, 63 * mib, 0, 50 * mib);
  EXPECT_FALSE(few.is_avoided());
}

TEST(segment_mixing, it_ends_after_many_growths) {
  segment_mixing m;
  m.note_growth(32 * mib, 320 * mib, 0, 160 * mib);
  int growths = 0;
  for (; m.is_avoided() && growths < 10'000; ++growths) m.note_growth(2 * mib, 300 * mib, 0, 160 * mib);
  EXPECT_EQ(growths, 1024);
}

}  // namespace
}  // namespace gpumem::resource
