// When empty segments of many threads' growths go back: near the most that ever was, and within a part of the
// time.
#include "core/resource/pools/backing/surplus.hpp"

#include <gtest/gtest.h>

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;

TEST(surplus, a_growth_near_the_most_with_much_idle_asks_for_it) {
  surplus s;
  s.note_growth(100 * mib, 400 * mib);
  EXPECT_FALSE(s.is_wanted()) << "a quarter is usual";
  s.note_growth(101 * mib, 400 * mib);
  EXPECT_TRUE(s.is_wanted());
  EXPECT_TRUE(s.begin(1));
  EXPECT_FALSE(s.is_wanted());
  EXPECT_FALSE(s.begin(2)) << "once";
  s.note_growth(200 * mib, 349 * mib);
  EXPECT_FALSE(s.is_wanted()) << "it had more before";
  s.note_growth(200 * mib, 350 * mib);
  EXPECT_TRUE(s.is_wanted());
  s.drop();
  EXPECT_FALSE(s.begin(3));
  surplus small;
  small.note_growth(50 * mib, 63 * mib);
  EXPECT_FALSE(small.is_wanted());
}

TEST(surplus, it_takes_a_64th_of_the_time_once_20_ms_are_spent) {
  surplus s;
  auto const may = [&](std::uint64_t now) {
    s.note_growth(200 * mib, 400 * mib);
    return s.begin(now);
  };
  EXPECT_TRUE(may(1000 * millisecond));
  s.spent(19 * millisecond);
  EXPECT_TRUE(may(1000 * millisecond));
  s.spent(11 * millisecond);
  EXPECT_FALSE(may(1000 * millisecond + 640 * millisecond));
  EXPECT_TRUE(may(1000 * millisecond + 641 * millisecond));
}

}  // namespace
}  // namespace gpumem::resource
