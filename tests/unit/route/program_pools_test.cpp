// Pools of the program that end while blocks of theirs live: who may destroy them at the driver, and when.
#include "core/route/program_pools.hpp"

#include "tests/unit/route/fixture.hpp"

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

// Else it would be kept at the driver for good, and its entry be nobody's again.
TEST_F(route_fixture, a_pool_has_no_block_any_longer_that_went_with_its_context) {
  present->serves_pools = true;
  CUmemPoolProps plain{};
  plain.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  plain.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  pool_made(first, plain);
  CUdeviceptr block = 0;
  {
    tests::in_context const here(tests::first_context);
    EXPECT_SERVED(allocate_from_pool(first,
                                     {.bytes = 4096,
                                      .stream_ordered = true,
                                      .context = tests::first_context,
                                      .stream = tests::stream(1)},
                                     &block),
                  CUDA_SUCCESS);
  }
  EXPECT_EQ(pool_of(block), first);
  pool_ending const was = pool_ends(first);
  ASSERT_NE(was.told, nullptr);
  EXPECT_EQ(was.told->remains.load(), left::ending);
  was.told->remains = left::kept;  // as the driver's answer says
  EXPECT_EQ(present->pools.take_kept(), nullptr) << "a block lives";
  context_gone(tests::first_context);
  EXPECT_EQ(was.told->live.load(), 0u);
  EXPECT_EQ(present->pools.take_kept(), first);
}

}  // namespace
}  // namespace gpumem::route
