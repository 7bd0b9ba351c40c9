// Pools of the program that end while blocks of theirs live: who may destroy them at the driver, and when.
#include "core/route/program_pools.hpp"

#include <gtest/gtest.h>

namespace gpumem::route {
namespace {

using left = program_pools::left;
CUmemoryPool const first = reinterpret_cast<CUmemoryPool>(0x100);
CUmemoryPool const second = reinterpret_cast<CUmemoryPool>(0x200);

struct ending_pool : testing::Test {
  ending_pool() {
    pools.made(first, 0);
    entry = pools.find(first);
    entry->live = 1;
    EXPECT_EQ(pools.end(first), entry);
  }
  program_pools& pools = *new program_pools;  // its tables are never destroyed
  program_pools::pool* entry = nullptr;
};

TEST_F(ending_pool, is_nobody_elses_to_destroy_until_the_driver_has_answered) {
  EXPECT_EQ(pools.find_telling(first), nullptr);
  EXPECT_TRUE(pools.is_kept(first));
  entry->live = 0;  // another thread frees the block
  EXPECT_EQ(pools.take_kept(), nullptr);
  pools.made(second, 0);
  EXPECT_NE(pools.find(second), entry) << "its entry is another pool's";
}

TEST_F(ending_pool, is_destroyed_once_by_whoever_comes_when_no_block_lives) {
  entry->remains = left::kept;
  EXPECT_EQ(pools.take_kept(), nullptr) << "a block lives";
  entry->live = 0;
  EXPECT_EQ(pools.take_kept(), first);
  EXPECT_EQ(pools.take_kept(), nullptr);
  EXPECT_FALSE(pools.is_kept(first));
  pools.made(second, 0);
  EXPECT_EQ(pools.find(second), entry);
}

TEST_F(ending_pool, is_what_it_was_where_the_driver_refused) {
  pools.restore(*entry, first, true);
  EXPECT_FALSE(pools.is_kept(first));
  EXPECT_EQ(pools.find(first), entry);
  entry->live = 0;
  EXPECT_EQ(pools.take_kept(), nullptr);
}

TEST(ended_pool, without_a_block_is_the_drivers_at_once) {
  program_pools& pools = *new program_pools;
  pools.made(first, 0);
  pools.end(first);
  EXPECT_FALSE(pools.is_kept(first));
}

}  // namespace
}  // namespace gpumem::route
