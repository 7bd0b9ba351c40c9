// start_map: against a std::set of the same numbers, for sizes of one to six levels.
#include "core/space/blocks/start_map.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace gpumem::space {
namespace {

TEST(start_map_test, empty_it_knows_nothing) {
  start_map map;
  EXPECT_EQ(map.last_up_to(0), start_map::nothing);
  ASSERT_TRUE(map.reset(100));
  EXPECT_EQ(map.last_up_to(99), start_map::nothing);
}

TEST(start_map_test, finds_the_last_one_that_is_not_behind) {
  start_map map;
  ASSERT_TRUE(map.reset(1 << 20));
  for (std::uint64_t const at : {0, 63, 64, 4095, 4096, 1 << 19}) map.set(at);
  EXPECT_EQ(map.last_up_to(0), 0u);
  EXPECT_EQ(map.last_up_to(62), 0u);
  EXPECT_EQ(map.last_up_to(63), 63u);
  EXPECT_EQ(map.last_up_to(64), 64u);
  EXPECT_EQ(map.last_up_to(4094), 64u);
  EXPECT_EQ(map.last_up_to((1 << 19) - 1), 4096u);
  EXPECT_EQ(map.last_up_to((1 << 20) - 1), 1u << 19);
  map.clear(4096);
  EXPECT_EQ(map.last_up_to((1 << 19) - 1), 4095u);
}

TEST(start_map_test, holds_a_segment_of_two_tebibytes) {
  start_map map;
  ASSERT_TRUE(map.reset(std::uint64_t{1} << 32));
  map.set(5);
  EXPECT_EQ(map.last_up_to((std::uint64_t{1} << 32) - 1), 5u);
  map.set((std::uint64_t{1} << 32) - 1);
  EXPECT_EQ(map.last_up_to((std::uint64_t{1} << 32) - 1), (std::uint64_t{1} << 32) - 1);
  EXPECT_EQ(map.last_up_to((std::uint64_t{1} << 32) - 2), 5u);
}

TEST(start_map_test, agrees_with_a_set_whatever_is_set_and_cleared) {
  std::mt19937_64 random(11);
  for (std::uint64_t const units : {std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{65},
                                    std::uint64_t{5000}, std::uint64_t{300000}, std::uint64_t{40} << 20}) {
    start_map map;
    ASSERT_TRUE(map.reset(units));
    std::set<std::uint64_t> set;
    for (int step = 0; step < 20000; ++step) {
      std::uint64_t const at = random() % units;
      if (random() % 2 == 0) {
        map.set(at);
        set.insert(at);
      } else if (!set.empty()) {
        auto found = set.lower_bound(at);
        if (found == set.end()) --found;
        map.clear(*found);
        set.erase(found);
      }
      std::uint64_t const asked = random() % units;
      auto const behind = set.upper_bound(asked);
      ASSERT_EQ(map.last_up_to(asked), behind == set.begin() ? start_map::nothing : *std::prev(behind))
          << units << " units, step " << step << ", asked " << asked;
    }
  }
}

}  // namespace
}  // namespace gpumem::space
