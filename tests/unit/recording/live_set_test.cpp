// The table of what is live, against a map.
#include "core/recording/live_set.hpp"

#include <gtest/gtest.h>

#include "tests/unit/recording/memory_file.hpp"
#include "tests/unit/seeds.hpp"

namespace gpumem::recording {
namespace {

TEST(live_set, holds_what_a_map_holds) {
  for (unsigned const seed : tests::seeds()) {
    random_events program(seed);
    live_set live;
    for (int i = 0; i < 100'000; ++i) {
      auto const before = i % 1000 == 0 ? program.live : decltype(program.live){};
      event const one = program.next();
      if (i % 1000 != 0) {
        EXPECT_TRUE(live.apply(one).known);
        continue;
      }
      auto const change = live.apply(one);
      if (is_given_back(one.what)) {
        EXPECT_EQ(change.before, before.at({one.keys, one.address}));
      }
      ASSERT_EQ(live.size(), program.live.size());
      for (auto const& [key, taken] : program.live) {
        event const* const found = live.find(key.first, key.second);
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(*found, taken);
      }
    }
  }
}

TEST(live_set, says_what_contradicts) {
  live_set live;
  event one{.address = 4096, .bytes = 5, .what = action::free};
  EXPECT_FALSE(live.apply(one).known);
  one.what = action::allocate;
  EXPECT_TRUE(live.apply(one).known);
  auto const again = live.apply(one);
  EXPECT_FALSE(again.known);
  EXPECT_EQ(again.before.bytes, 5u);
  EXPECT_EQ(live.size(), 1u);
  one.keys = key_kind::segment;
  one.what = action::segment_given_back;
  EXPECT_FALSE(live.apply(one).known) << "a key of another kind";
}

}  // namespace
}  // namespace gpumem::recording
