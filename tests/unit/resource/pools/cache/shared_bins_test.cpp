// Bins that threads share: which sizes they have, whose turn it is, and what a block has to be for one.
#include "core/resource/pools/cache/shared_bins.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <thread>
#include <vector>

namespace gpumem::resource {
namespace {

struct shared_bins_test : testing::Test {
  space::handle block(std::uint32_t units, space::epoch_id freed, std::uint64_t address = 1 << 20) {
    space::handle const h = table.acquire();
    table[h].units = units;
    table[h].freed = freed;
    table[h].address = address;
    table[h].now = space::state::cached;
    return h;
  }
  space::handle take(std::uint32_t units, space::epoch_id done, std::uint32_t alignment = 0) {
    look = {};
    return bins.take(
        table, units, [done](space::epoch_id e) { return e <= done; }, look, alignment);
  }

  space::block_table table;
  shared_bins bins;
  cache_look look;
};

TEST_F(shared_bins_test, four_sizes_in_each_doubling) {
  EXPECT_FALSE(shared_bins::has_bin(512));
  EXPECT_TRUE(shared_bins::has_bin(513));
  EXPECT_TRUE(shared_bins::has_bin(131'072));
  EXPECT_FALSE(shared_bins::has_bin(131'073));
  EXPECT_EQ(shared_bins::round_up(513), 640u);
  EXPECT_EQ(shared_bins::round_up(640), 640u);
  EXPECT_EQ(shared_bins::round_up(1025), 1280u);
  EXPECT_EQ(shared_bins::round_up(131'072), 131'072u);
  for (std::uint32_t units = 513; units <= 131'072; ++units) {
    std::uint32_t const size = shared_bins::round_up(units);
    ASSERT_GE(size, units);
    ASSERT_LE(4 * (size - units), units);
    ASSERT_EQ(shared_bins::round_up(size), size);
  }
}

TEST_F(shared_bins_test, each_size_has_its_own_and_the_oldest_is_first) {
  space::handle const older = block(640, 1), younger = block(640, 2), other = block(768, 1);
  for (space::handle const h : {older, younger, other}) EXPECT_TRUE(bins.put(table, h));
  EXPECT_EQ(bins.bytes(), (640 + 640 + 768) * space::unit);
  EXPECT_EQ(take(640, 9), older);
  EXPECT_EQ(table[older].now, space::state::live);
  EXPECT_EQ(take(640, 9), younger);
  EXPECT_EQ(take(640, 9), space::none);
  EXPECT_FALSE(look.waits);
  EXPECT_EQ(take(768, 9), other);
  EXPECT_EQ(bins.bytes(), 0u);
}

TEST_F(shared_bins_test, what_is_not_done_stays) {
  space::handle const h = block(640, 5);
  EXPECT_TRUE(bins.put(table, h));
  EXPECT_EQ(take(640, 4), space::none);
  EXPECT_TRUE(look.waits);
  EXPECT_EQ(look.waiting, 5u);
  EXPECT_EQ(take(640, 5), h);
}

// Of a context that has ended it is nobody's to keep, and maybe another's to use.
TEST_F(shared_bins_test, a_block_that_is_no_more_is_left_alone) {
  space::handle const h = block(640, 5);
  table[h].next = 77;
  EXPECT_TRUE(bins.put(table, h, [](space::block const&) { return false; }));
  EXPECT_EQ(table[h].next, 77u);
  EXPECT_EQ(take(640, 5), space::none);
  EXPECT_TRUE(bins.put(table, h, [](space::block& b) { return b.freed = 6, true; }));
  EXPECT_EQ(take(640, 5), space::none);
  EXPECT_EQ(take(640, 6), h);
}

TEST_F(shared_bins_test, all_are_forgotten) {
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(bins.put(table, block(640, 1)));
  bins.forget();
  EXPECT_EQ(bins.bytes(), 0u);
  EXPECT_EQ(take(640, 9), space::none);
  space::handle const h = block(640, 1);
  EXPECT_TRUE(bins.put(table, h));
  EXPECT_EQ(bins.empty(table), h);
}

TEST_F(shared_bins_test, a_size_between_has_none) {
  EXPECT_FALSE(bins.put(table, block(641, 1)));
  EXPECT_FALSE(bins.put(table, block(512, 1)));
  EXPECT_EQ(bins.empty(table), space::none);
}

TEST_F(shared_bins_test, a_block_that_begins_elsewhere_is_not_taken) {
  space::handle const h = block(640, 1, (1 << 20) + 512);
  EXPECT_TRUE(bins.put(table, h));
  EXPECT_EQ(take(640, 9, 4096), space::none);
  EXPECT_EQ(take(640, 9, 512), h);
}

TEST_F(shared_bins_test, all_come_out_as_one_list) {
  for (std::uint32_t const units : {640u, 640u, 131'072u, 768u})
    EXPECT_TRUE(bins.put(table, block(units, 1)));
  std::uint64_t all = 0, pending = 0;
  bins.measure(
      table, [](space::epoch_id) { return false; }, all, pending);
  EXPECT_EQ(all, bins.bytes());
  EXPECT_EQ(pending, all);
  int count = 0;
  for (space::handle h = bins.empty(table); h != space::none; h = table[h].next) ++count;
  EXPECT_EQ(count, 4);
  EXPECT_EQ(bins.bytes(), 0u);
}

// More than lie in the bin's own line, and fewer again.
TEST_F(shared_bins_test, the_oldest_is_first_however_many_there_are) {
  std::deque<space::handle> expected;
  auto const put = [&](int many) {
    for (int i = 0; i < many; ++i) {
      expected.push_back(block(640, 1));
      ASSERT_TRUE(bins.put(table, expected.back()));
    }
  };
  auto const take_oldest = [&](std::size_t left) {
    while (expected.size() > left) {
      ASSERT_EQ(take(640, 9), expected.front());
      expected.pop_front();
    }
  };
  for (int const many : {5, 11, 12, 13, 30, 12, 2}) {
    put(many);
    take_oldest(3);
    put(many);
    std::uint64_t all = 0, pending = 0;
    bins.measure(
        table, [](space::epoch_id) { return true; }, all, pending);
    EXPECT_EQ(all, expected.size() * 640 * space::unit);
    EXPECT_EQ(bins.bytes(), all);
    EXPECT_EQ(pending, 0u);
    take_oldest(many % 2);
  }
  put(40);
  std::set<space::handle> emptied;
  for (space::handle h = bins.empty(table); h != space::none; h = table[h].next)
    EXPECT_TRUE(emptied.insert(h).second);
  EXPECT_EQ(emptied, std::set<space::handle>(expected.begin(), expected.end()));
  EXPECT_EQ(take(640, 9), space::none);
}

TEST_F(shared_bins_test, each_block_goes_to_one_thread) {
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(bins.put(table, block(640, 1)));
  std::vector<std::jthread> team;
  for (int t = 0; t < 4; ++t) {
    team.emplace_back([this] {
      for (int i = 0; i < 20'000; ++i) {
        cache_look mine;
        space::handle const h = bins.take(
            table, 640, [](space::epoch_id) { return true; }, mine, 0);
        if (h == space::none) continue;
        ASSERT_EQ(table[h].now.exchange(space::state::cached), space::state::live);
        ASSERT_TRUE(bins.put(table, h));
      }
    });
  }
  team.clear();
  EXPECT_EQ(bins.bytes(), 64 * 640 * space::unit);
}

}  // namespace
}  // namespace gpumem::resource
