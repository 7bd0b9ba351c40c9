// What frees are to give back before requests need it, and what requests then need not give back.
#include "core/resource/pools/backing/given_ahead.hpp"

#include <gtest/gtest.h>

namespace gpumem::resource {
namespace {

struct given_ahead_test : testing::Test {
  static constexpr std::uint64_t mib = 1ull << 20;
  static constexpr std::uint64_t all = 512 * mib;
  given_ahead now;
};

TEST_F(given_ahead_test, is_what_requests_had_to_give_back) {
  EXPECT_FALSE(now.is_wanted());
  EXPECT_FALSE(now.take_room(mib));
  now.note_late(31 * mib, all);
  EXPECT_FALSE(now.is_wanted()) << "little";
  EXPECT_EQ(now.missing(), 0u);
  now.note_late(97 * mib, all);
  EXPECT_TRUE(now.is_wanted());
  EXPECT_EQ(now.missing(), 128 * mib);
  now.note_late(512 * mib, all);
  EXPECT_EQ(now.missing(), all) << "no more than there is";
}

TEST_F(given_ahead_test, requests_take_the_room_once) {
  now.note_late(128 * mib, all);
  now.note_given(64 * mib);
  EXPECT_EQ(now.missing(), 56 * mib) << "an eighth less than before is wanted of what went";
  EXPECT_FALSE(now.take_room(65 * mib));
  EXPECT_TRUE(now.take_room(40 * mib));
  EXPECT_FALSE(now.take_room(40 * mib));
  EXPECT_TRUE(now.take_room(24 * mib));
  now.note_given(64 * mib);
  now.drop_room();
  EXPECT_FALSE(now.take_room(mib));
}

TEST_F(given_ahead_test, a_loop_whose_sizes_come_back_keeps_its_memory_in_the_end) {
  now.note_late(128 * mib, all);
  int rounds = 0;
  for (; now.is_wanted() && rounds < 1000; ++rounds) {
    std::uint64_t const gone = now.missing();
    now.note_given(gone);
    EXPECT_TRUE(now.take_room(gone));
  }
  EXPECT_LT(rounds, 16);
}

}  // namespace
}  // namespace gpumem::resource
