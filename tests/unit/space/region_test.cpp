// A region one rule at a time; random_test beside it does the rest.
#include "core/space/region.hpp"

#include <gtest/gtest.h>

#include "core/stats/page/state_page.hpp"
#include "tests/unit/space/region_checks.hpp"

namespace gpumem::space {
namespace {

struct region_test : testing::Test {
  block_registry where;
  nobody who;
  region space{where, &who};
  region_model model;

  void add(std::uint64_t at, std::uint32_t units, std::uint64_t token = 0) {
    ASSERT_TRUE(space.add_segment(at, units * unit, token));
    model.segments[at] = units * unit;
  }
  handle take(free_list_id from, std::uint32_t units, bool hidden = false) {
    handle const h = space.take(from, units, true, hidden);
    if (h == none) return none;
    model.out.insert(h);
    if (hidden) model.hidden.insert(h);
    return h;
  }
  void put(handle h, free_list_id to, epoch_id freed = 0) {
    where.blocks[h].freed = freed;
    model.out.erase(h);
    model.hidden.erase(h);
    space.put(h, to);
  }
  void check() {
    check_region(where, space, model, [](std::string const& what) { ADD_FAILURE() << what; });
  }
};

TEST_F(region_test, refuses_a_segment_without_a_unit) {
  EXPECT_FALSE(space.add_segment(first_address, unit - 1, 0));
  EXPECT_FALSE(space.add_segment(first_address, 0, 0));
  EXPECT_EQ(space.reserved_bytes(), 0u);
}

TEST_F(region_test, keeps_the_token_of_a_segment) {
  add(first_address, 8, 77);
  EXPECT_EQ(space.segments().front()->token, 77u);
}

TEST_F(region_test, of_two_free_lists_the_block_that_is_cut_less) {
  add(first_address, 100);
  handle const large = take(done, 50), small = take(done, 20);
  take(done, 30);
  put(large, first_stream + 3, 1);
  put(small, done);
  EXPECT_EQ(space.take_tighter(first_stream + 3, 15, false, false, unit), small);
  EXPECT_EQ(space.take_tighter(first_stream + 3, 15, false, false, unit), large)
      << "what is left of the small one is too small";
  EXPECT_EQ(space.take_tighter(first_stream + 4, 15, false, false, unit), none) << "of no other stream";
}

TEST_F(region_test, by_itself_a_large_block_shares_no_segment_with_small_ones) {
  constexpr std::uint32_t mib = (1u << 20) / unit;
  auto const take_one = [&](std::uint32_t units) {
    handle const h = space.take_by_itself(done, units, 3 * mib, 32ull << 20, false, unit);
    if (h != none) model.out.insert(h);
    return h;
  };
  add(first_address, 64 * mib);
  EXPECT_EQ(take_one(61 * mib - 1), none) << "of an empty segment more than 3 MiB would be left";
  ASSERT_NE(take_one(61 * mib), none);
  EXPECT_EQ(take_one(mib), none) << "beside others a block is 1/16 of it at least";
  add(first_address + (1ull << 30), 32 * mib);
  EXPECT_EQ(take_one(2 * mib), none) << "of an empty segment";
  handle const small = take_one(mib);
  ASSERT_NE(small, none) << "blocks below a page lie together";
  EXPECT_GE(where.blocks[small].begin(), first_address + (1ull << 30));
  EXPECT_NE(take_one(2 * mib), none) << "beside others";
  add(first_address + (2ull << 30), 2 * mib);
  EXPECT_NE(take_one(2 * mib), none);
}

TEST_F(region_test, in_proportion_no_small_block_keeps_a_large_segment) {
  constexpr std::uint32_t mib = (1u << 20) / unit;
  auto const take_one = [&](std::uint32_t units) {
    handle const h = space.take_in_proportion(units, false, unit);
    if (h != none) model.out.insert(h);
    return h;
  };
  add(first_address, 32 * mib);
  EXPECT_EQ(take_one(23 * mib), none) << "an empty segment is to be filled by three quarters";
  handle const large = take_one(24 * mib);
  ASSERT_NE(large, none);
  EXPECT_EQ(take_one(2 * mib - 1), none) << "beside others a block is 1/16 of it at least";
  handle const beside = take_one(2 * mib);
  ASSERT_NE(beside, none);
  add(first_address + (1ull << 30), 2 * mib);
  handle const small = take_one(1);
  ASSERT_NE(small, none) << "a page of the driver's takes any";
  EXPECT_GE(where.blocks[small].begin(), first_address + (1ull << 30));
  add(first_address + (2ull << 30), 65 * mib);
  handle const any = take_one(3 * mib);
  ASSERT_NE(any, none);
  EXPECT_LT(where.blocks[any].begin(), first_address + (1ull << 30)) << "the tightest";
  EXPECT_NE(take_one(7 * mib), none) << "what is larger than 64 MiB takes any";
  EXPECT_EQ(space.empty_bytes(), 0u);
  check();
}

TEST_F(region_test, a_segment_made_for_large_blocks_takes_no_small_one) {
  bool overlooked = true;
  auto const take_one = [&](std::uint32_t units, std::uint64_t alignment = unit) {
    handle const h = space.take_admitted(units, false, alignment, overlooked);
    if (h != none) model.out.insert(h);
    return h;
  };
  add(first_address, 640);
  EXPECT_EQ(space.admitting_bytes(), 640 * unit);
  space.admit_from(*space.segments().back(), 40);
  EXPECT_EQ(space.admitting_bytes(), 0u);
  EXPECT_EQ(take_one(39), none);
  EXPECT_FALSE(overlooked);
  EXPECT_NE(take_one(40), none);
  add(first_address + (1ull << 30), 700);
  handle const small = take_one(1);
  ASSERT_NE(small, none);
  EXPECT_GE(where.blocks[small].begin(), first_address + (1ull << 30)) << "though the other one is tighter";
  EXPECT_EQ(space.admitting_bytes(), 700 * unit);
  EXPECT_NE(take(done, 1), none) << "whoever takes any gets any";
  check();
}

TEST_F(region_test, of_many_that_take_no_small_block_a_few_are_looked_at) {
  bool overlooked = false;
  for (std::uint32_t i = 0; i < 40; ++i) {
    add(first_address + i * (1ull << 20), 64);
    space.admit_from(*space.segments().back(), 32);
  }
  EXPECT_EQ(space.take_admitted(8, false, unit, overlooked), none);
  EXPECT_TRUE(overlooked);
}

TEST_F(region_test, cuts_and_merges_from_all_sides) {
  add(first_address, 100);
  handle const a = take(done, 10), b = take(done, 20), c = take(done, 70);
  ASSERT_TRUE(a != none && b != none && c != none);
  EXPECT_EQ(take(done, 1), none);
  check();
  put(a, done);
  put(c, done);
  check();
  EXPECT_EQ(space.empty_segment(), nullptr);
  put(b, done);
  check();
  EXPECT_NE(space.empty_segment(), nullptr);
  EXPECT_EQ(space.largest_idle(), 100 * unit);
}

// All of it, in as many steps as the count takes.
int count(region& space, stats::free_blocks& to) {
  region::count_place at;
  int steps = 1;
  while (space.count_idle(at, to)) ++steps;
  return steps;
}

TEST_F(region_test, idle_blocks_are_counted_by_size) {
  add(first_address, 1000);
  std::vector<handle> taken;
  for (std::uint32_t units : {1u, 15u, 16u, 31u, 32u, 100u}) {
    taken.push_back(take(done, units));
    take(done, 1);  // between them, so that they do not merge
  }
  for (std::size_t i = 0; i < taken.size(); ++i)
    put(taken[i], i % 3 == 0 ? done : i % 3 == 1 ? pending : free_list_id(first_stream + 5), 1);
  put(take(done, 64), withheld, 1);  // serves nobody
  take(done, 1000 - 195 - 6 - 64);
  stats::free_blocks found;
  EXPECT_LT(count(space, found), 10);
  std::uint64_t const wanted[] = {2, 2, 1, 1};  // below 16 units, below 32, 64, 128
  for (std::size_t row = 0; row < stats::free_rows; ++row)
    EXPECT_EQ(found.rows[row].blocks, row < std::size(wanted) ? wanted[row] : 0) << row;
  EXPECT_EQ(found.rows[0].bytes, 16 * unit);
  EXPECT_EQ(found.rows[1].bytes, 47 * unit);
  EXPECT_EQ(found.rows[3].bytes, 100 * unit);
  EXPECT_TRUE(found.all);
  for (std::size_t row = 1; row < stats::free_rows; ++row)
    EXPECT_EQ(stats::free_row_begin(row), 16 * unit << (row - 1));
}

TEST_F(region_test, too_many_idle_blocks_are_not_all_counted) {
  add(first_address, 20'001);
  std::vector<handle> taken;
  for (int i = 0; i < 10'000; ++i) {
    taken.push_back(take(done, 1));
    take(done, 1);
  }
  for (handle h : taken) put(h, done);
  stats::free_blocks found;
  count(space, found);
  EXPECT_FALSE(found.all);
  EXPECT_GE(found.rows[0].blocks, 4000u);
  EXPECT_LE(found.rows[0].blocks, 5000u);
}

TEST_F(region_test, neighbours_of_two_domains_stay_apart_until_they_are_done) {
  add(first_address, 3);
  handle const a = take(done, 1), b = take(done, 1), c = take(done, 1);
  put(a, pending, 1);
  put(b, first_stream + 4, 1);
  put(c, first_stream + 5, 2);
  check();
  EXPECT_EQ(space.largest_idle(), unit);
  EXPECT_EQ(space.pending_bytes(), 3 * unit);
  EXPECT_EQ(space.reap([](epoch_id s) { return s <= 1; }), 2 * unit);
  check();
  EXPECT_EQ(space.largest_idle(), 2 * unit);
  EXPECT_EQ(space.oldest_epoch(), 2u);
}

TEST_F(region_test, a_merged_block_is_as_young_as_its_youngest_part) {
  add(first_address, 2);
  handle const a = take(done, 1), b = take(done, 1);
  put(a, pending, 9);
  put(b, pending, 3);
  EXPECT_EQ(space.reap([](epoch_id s) { return s <= 3; }), 0u);
  EXPECT_EQ(space.reap([](epoch_id s) { return s <= 9; }), 2 * unit);
  // Across the wrap of the epochs 2 is younger than ~0.
  put(take(done, 1), pending, ~0u);
  put(take(done, 1), pending, 2);
  EXPECT_EQ(space.oldest_epoch(), 2u);
  check();
}

TEST_F(region_test, a_block_taken_before_it_is_done_keeps_its_stamp) {
  add(first_address, 4);
  put(take(done, 4), first_stream + 1, 42);
  handle const h = take(first_stream + 1, 1);
  ASSERT_NE(h, none);
  EXPECT_EQ(where.blocks[h].freed, 42u);
  EXPECT_EQ(space.oldest_epoch(), 42u);
  check();
}

TEST_F(region_test, unfinished_blocks_of_any_domain_but_the_own) {
  add(first_address, 2);
  handle const a = take(done, 1), b = take(done, 1);
  put(a, first_stream + 1, 5);
  EXPECT_EQ(space.take_unfinished(first_stream + 1, 1), none);
  put(b, pending, 6);
  handle const taken = space.take_unfinished(first_stream + 1, 1);
  EXPECT_EQ(taken, b);
  EXPECT_EQ(where.blocks[taken].where, pending);
  model.out.insert(taken);
  check();
}

TEST_F(region_test, orphans_wait_with_the_others) {
  add(first_address, 3);
  handle const a = take(done, 1), b = take(done, 1), c = take(done, 1);
  put(a, first_stream + 3, 1);
  put(c, first_stream + 3, 2);
  put(b, pending, 3);
  space.orphan(first_stream + 3);
  check();
  EXPECT_EQ(space.take(first_stream + 3, 1), none);
  EXPECT_EQ(where.blocks[where.segments[space.segments().front()->index].first].bytes(), 3 * unit);
  EXPECT_EQ(space.reap([](epoch_id s) { return s <= 2; }), 0u);
  EXPECT_EQ(space.reap([](epoch_id s) { return s <= 3; }), 3 * unit);
  check();
}

TEST_F(region_test, hidden_blocks_are_not_in_the_map_even_when_they_were) {
  add(first_address, 4);
  handle const shown = take(done, 4);
  EXPECT_EQ(where.map.find(first_address), shown);
  put(shown, done);
  handle const hidden = take(done, 4, true);
  EXPECT_EQ(where.map.find(first_address), none);
  check();
  put(hidden, done);
  EXPECT_EQ(where.map.find(first_address), none);
  take(done, 4);
  check();
}

TEST_F(region_test, a_segment_with_withheld_memory_goes_when_nothing_of_it_is_in_use) {
  add(first_address, 4);
  handle const a = take(done, 1), b = take(done, 1);
  space.segments()[0]->pinned = true;
  EXPECT_EQ(space.left_segment(), nullptr);
  space.put(a, withheld);
  EXPECT_EQ(space.withheld_bytes(), unit);
  EXPECT_EQ(space.idle_bytes(), 2 * unit);
  EXPECT_EQ(space.left_segment(), nullptr) << "a block of it is live";
  handle const rest = space.take(done, 2);
  EXPECT_EQ(space.take(done, 1), none) << "withheld memory serves nobody";
  EXPECT_EQ(space.take_unfinished(done, 1), none);
  space.put(b, withheld);
  space.put(rest, done);
  EXPECT_EQ(space.empty_segment(), nullptr);
  ASSERT_EQ(space.left_segment(), space.segments()[0]);
  space.remove_segment(space.segments()[0]);
  EXPECT_EQ(space.withheld_bytes(), 0u);
  EXPECT_EQ(space.reserved_bytes(), 0u);
  model = {};
}

TEST_F(region_test, empty_segments_pass_over_kept_ones) {
  add(first_address, 4);
  add(first_address + 64 * unit, 4);
  EXPECT_NE(space.empty_segment(0), nullptr);
  EXPECT_NE(space.empty_segment(1), nullptr);
  EXPECT_EQ(space.empty_segment(2), nullptr);
}

TEST_F(region_test, a_segment_goes_with_its_live_blocks) {
  add(first_address, 4);
  add(first_address + 64 * unit, 4);
  handle const a = take(done, 3);
  segment* const s = &where.segments[where.blocks[a].segment];
  std::uint64_t const at = s->base;
  put(take(done, 1), pending, 1);
  space.remove_segment(s);
  model.segments.erase(at);
  model.out.clear();
  check();
  EXPECT_EQ(where.map.find(at), none);
  EXPECT_EQ(where.segments.containing(at).in, nullptr);
}

}  // namespace
}  // namespace gpumem::space
