// The arithmetic of growth alone: steps, patience, and how many blocks of a size take turns.
#include "core/resource/pools/backing/growth_policy.hpp"

#include <gtest/gtest.h>

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

TEST(growth_policy, a_step_is_a_part_of_what_is_reserved) {
  suballocator_options const options{};
  growth_policy const policy(options);
  EXPECT_EQ(policy.step(4 * kib, 0, false), 2 * mib);
  EXPECT_EQ(policy.step(4 * kib, 1 * gib, false), 32 * mib);
  EXPECT_EQ(policy.step(4 * kib, 1 * gib, true), 64 * mib) << "a capture makes larger steps";
  EXPECT_EQ(policy.step(4 * kib, 0, true), 16 * mib) << "which takes no longer than a page";
  EXPECT_EQ(policy.step(4 * kib, 64 * gib, false), 256 * mib) << "and none is larger";
  EXPECT_EQ(policy.step(100 * mib, 1 * gib, false), 100 * mib)
      << "a good part of the whole is taken as it is";
  EXPECT_EQ(policy.step(3 * mib, 0, false), 4 * mib) << "the driver's page";
}

TEST(growth_policy, where_much_is_idle_in_pieces_segments_get_even_sizes) {
  suballocator_options const options{.sparing_beyond = 2 * gib};
  growth_policy const policy(options);
  EXPECT_EQ(policy.step(33 * mib, 600 * mib, false, 151 * mib), 64 * mib) << "the power of two below 1/16";
  EXPECT_EQ(policy.step(33 * mib, 600 * mib, false, 150 * mib), 34 * mib) << "a quarter is usual";
  EXPECT_EQ(policy.step(3 * mib, 63 * mib, false, 50 * mib), 4 * mib) << "few segments keep little apart";
  EXPECT_EQ(policy.step(4 * kib, 1 * gib, false, 512 * mib), 64 * mib);
  EXPECT_EQ(policy.step(33 * mib, 2 * gib - 40 * mib, false, 1 * gib), 34 * mib)
      << "not where memory is to be spared";
  suballocator_options const unbounded{};
  EXPECT_EQ(growth_policy(unbounded).step(1 * gib + 1, 64 * gib, false, 32 * gib), 1 * gib + 256 * mib)
      << "never much more";
  suballocator_options const part{.one_magazine = true};
  EXPECT_EQ(growth_policy(part).step(33 * mib, 600 * mib, false, 400 * mib), 34 * mib)
      << "what an arena's part has too much of the others lack";
  suballocator_options const fixed{.growth = 2 * mib};
  EXPECT_EQ(growth_policy(fixed).step(33 * mib, 600 * mib, false, 400 * mib), 34 * mib);
}

TEST(growth_policy, a_segment_made_for_a_large_block_is_for_such) {
  EXPECT_EQ(growth_policy::least_in(32 * mib, 20 * mib), 2 * mib);
  EXPECT_EQ(growth_policy::least_in(32 * mib, 2 * mib), 2 * mib);
  EXPECT_EQ(growth_policy::least_in(32 * mib, 2 * mib - 512), 0u) << "it is for many small ones";
  EXPECT_EQ(growth_policy::least_in(2 * mib, 2 * mib), 0u) << "a page of the driver's takes any";
}

TEST(growth_policy, kinds_are_kept_apart_while_that_costs_an_eighth) {
  suballocator_options const options{};
  growth_policy const policy(options);
  EXPECT_TRUE(policy.keeps_kinds_apart(64 * mib, 8 * mib));
  EXPECT_FALSE(policy.keeps_kinds_apart(64 * mib, 9 * mib));
  EXPECT_FALSE(policy.keeps_kinds_apart(63 * mib, 0)) << "so little is not worth it";
  suballocator_options const fixed{.growth = 2 * mib};
  EXPECT_FALSE(growth_policy(fixed).keeps_kinds_apart(64 * mib, 0));
}

TEST(growth_policy, a_step_of_the_options_wins_and_sizes_are_whole) {
  suballocator_options const options{.round_to = 3 * mib, .growth = 8 * mib};
  EXPECT_EQ(growth_policy(options).step(1, 64 * gib, false), 9 * mib);
}

TEST(growth_policy, near_the_end_only_what_is_asked_for) {
  suballocator_options const options{.maximum = 10 * gib, .sparing_beyond = 1 * gib};
  growth_policy const policy(options);
  EXPECT_EQ(policy.spare(), 1 * gib);
  EXPECT_FALSE(policy.would_exceed(1 * gib - 1, 1));
  EXPECT_TRUE(policy.would_exceed(1 * gib, 1));
  EXPECT_EQ(policy.step(4 * kib, 1 * gib, false), 2 * mib);
}

TEST(growth_policy, between_two_growths_it_waits_as_long_as_one_takes) {
  suballocator_options const options{};
  growth_policy const policy(options);
  EXPECT_EQ(policy.patience_ns(true, 0, gib, 0, 0), 100'000u);
  EXPECT_EQ(policy.patience_ns(true, 30'000, gib, gib, 0), 70'000u);
  EXPECT_EQ(policy.patience_ns(true, 200'000, gib, gib, 0), 0u);
  EXPECT_EQ(policy.patience_ns(false, 200'000, gib, 16 * mib, 0), 0u);
  EXPECT_EQ(policy.patience_ns(false, 200'000, gib, 200 * mib, 0), 100'000u)
      << "the host runs ahead of the GPU";
  EXPECT_EQ(policy.patience_ns(false, 200'000, gib, gib, 0), 100'000u) << "however far";
}

TEST(growth_policy, the_host_may_run_ahead_by_some_blocks_of_one_size) {
  suballocator_options const options{.sparing_beyond = 64 * gib};
  growth_policy const policy(options);
  EXPECT_EQ(policy.patience_ns(false, 200'000, gib, 200 * mib, 64 * mib), 0u) << "the GPU has little to do";
  EXPECT_EQ(policy.patience_ns(false, 30'000, gib, 200 * mib, 64 * mib), 70'000u);
  EXPECT_EQ(policy.patience_ns(false, 200'000, gib, 200 * mib, 8 * mib), 100'000u);
  EXPECT_EQ(policy.more_ahead(8 * mib, 8 * mib), 8 * mib);
  EXPECT_EQ(policy.more_ahead(64 * mib, 8 * mib), 64 * mib);
  EXPECT_EQ(policy.more_ahead(120 * mib, 8 * mib), 8 * mib) << "16 blocks in all";
  EXPECT_EQ(policy.more_ahead(128 * mib, 8 * mib), 0u);
  EXPECT_EQ(policy.more_ahead(2 * gib, 1 * gib), 0u) << "1/32 of the memory";
}

TEST(growth_policy, where_memory_is_scarce_small_blocks_lie_together) {
  EXPECT_EQ(growth_policy::step_by_itself(mib, gib), 32 * mib);
  EXPECT_EQ(growth_policy::step_by_itself(mib, 32 * mib), 2 * mib) << "that much is not to be had";
  EXPECT_EQ(growth_policy::step_by_itself(2 * mib, gib), 2 * mib);
  EXPECT_EQ(growth_policy::step_by_itself(100 * mib + 1, gib), 102 * mib);
}

TEST(growth_policy, a_large_pool_is_near_its_bound_from_eight_ninths_on) {
  suballocator_options const bounded{.maximum = 36 * gib}, spares_all{.sparing_beyond = 0}, free;
  EXPECT_FALSE(growth_policy(bounded).is_near_bound(32 * gib));
  EXPECT_TRUE(growth_policy(bounded).is_near_bound(32 * gib + 8));
  EXPECT_FALSE(growth_policy(spares_all).is_near_bound(gib - 1)) << "little can be ahead of the GPU";
  EXPECT_TRUE(growth_policy(spares_all).is_near_bound(gib));
  EXPECT_FALSE(growth_policy(free).is_near_bound(64 * gib));
  suballocator_options const thrifty{.maximum = 36 * gib, .release_threshold = mib};
  EXPECT_FALSE(growth_policy(thrifty).is_near_bound(35 * gib)) << "what is freed goes back, and leaves room";
}

TEST(growth_policy, what_may_be_left_of_a_piece) {
  constexpr std::uint32_t page = 4096;
  EXPECT_EQ(growth_policy::left_over(16 * page, page, false, true), page - 1) << "as new pages would";
  EXPECT_EQ(growth_policy::left_over(16 * page, page, true, false), 3 * page - 1);
  EXPECT_EQ(growth_policy::left_over(16 * page, page, true, true), 16 * page / 3 + page - 1);
}

TEST(growth_policy, blocks_take_turns_within_bounds) {
  suballocator_options const options{.maximum = 64 * gib};
  growth_policy const policy(options);
  EXPECT_EQ(policy.rotation_size(1 * mib), 128u);
  EXPECT_EQ(policy.rotation_size(64 * mib), 4u);
  EXPECT_EQ(policy.rotation_size(1 * gib), 2u);
  EXPECT_EQ(policy.rotation_size(4 * gib), 1u);
  suballocator_options const thrifty{.maximum = 64 * gib, .release_threshold = 1 * mib};
  EXPECT_EQ(growth_policy(thrifty).rotation_size(1 * mib), 1u) << "idle memory is to be given back";
}

TEST(growth_policy, what_is_taken_for_turns_is_bounded) {
  suballocator_options const options{.maximum = 64 * gib};
  growth_policy const policy(options);
  EXPECT_EQ(policy.more_to_rotate(64 * mib, 4, 1, 0, gib), 3 * 64 * mib);
  EXPECT_EQ(policy.more_to_rotate(64 * mib, 4, 1, 320 * mib, gib), 64 * mib) << "what is left of the batch";
  EXPECT_EQ(policy.more_to_rotate(64 * mib, 4, 1, 384 * mib, gib), 64 * mib)
      << "the second has room of its own";
  EXPECT_EQ(policy.more_to_rotate(64 * mib, 4, 2, 384 * mib, gib), 0u);
  EXPECT_EQ(policy.more_to_rotate(64 * mib, 4, 1, 3 * gib, gib), 0u) << "in all";
  EXPECT_EQ(policy.more_to_rotate(64 * mib, 4, 1, 0, 64 * gib), 0u)
      << "nothing beyond what may be had without waiting";
}

}  // namespace
}  // namespace gpumem::resource
