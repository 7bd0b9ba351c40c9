// Segments by themselves: how many bytes are asked for, what is refused, what goes back.
#include "core/resource/pools/backing/segment_backing.hpp"

#include "tests/unit/resource/pools/backing/backing_fixture.hpp"

namespace gpumem::resource {
namespace {

struct segment_backing_test : backing_fixture {
  segment_backing* made = nullptr;

  void SetUp() override {
    backing_fixture::SetUp();
    driver.manual_events(false);  // nothing runs
  }
  segment_backing& backing_with(suballocator_options const& options) {
    pool->options = options;
    pool->options.name = "mine";
    return *(made = new segment_backing(made_of()));
  }
  space::handle take(std::uint64_t bytes) { return pool->region.take(space::done, units(bytes)); }
  // What a request asks for that comes after two others, in whose segments nothing is in use.
  std::vector<std::uint64_t> asked_third(suballocator_options const& o, std::array<std::uint64_t, 3> sizes,
                                         std::optional<std::uint64_t> free = std::nullopt) {
    auto& by = backing_with(o);
    by.grow(held, {.units = units(sizes[0])});
    by.grow(held, {.units = units(sizes[1])});
    pool->source.asked.clear();
    pool->source.left = free;
    by.grow(held, {.units = units(sizes[2])});
    return pool->source.asked;
  }
  // Memory is short, and was given back for blocks of other sizes; what a request for 640 MiB then asks for,
  // where the driver says that it has `free`.
  std::vector<std::uint64_t> asked_anew(suballocator_options o, std::optional<std::uint64_t> free) {
    o.sparing_beyond = 0;
    return asked_third(o, {512 * mib, 600 * mib, 640 * mib}, free);
  }
};

TEST_F(segment_backing_test, where_sizes_come_and_go_a_growth_takes_the_remainder) {
  EXPECT_EQ(asked_anew({}, 1000 * mib), std::vector{984 * mib});
  EXPECT_EQ(pool->region.idle_bytes(), 984 * mib);
}

TEST_F(segment_backing_test, not_where_much_remains_or_nobody_says_what) {
  EXPECT_EQ(asked_anew({}, 2 * gib), std::vector{640 * mib});
  EXPECT_EQ(asked_anew({}, std::nullopt), std::vector{640 * mib});
}

TEST_F(segment_backing_test, not_where_it_is_set_to_take_no_more_or_so_much) {
  EXPECT_EQ(asked_anew({.takes_no_more = true}, 1000 * mib), std::vector{640 * mib});
  EXPECT_EQ(asked_anew({.growth = 2 * mib}, 1000 * mib), std::vector{640 * mib});
}

TEST_F(segment_backing_test, not_where_others_of_the_process_need_memory_of_the_device) {
  auto& gauge = stats::gauges(0).observed;
  stats::gauge_add(gauge, 512);
  EXPECT_EQ(asked_anew({}, 1000 * mib), std::vector{640 * mib});
  stats::gauge_subtract(gauge, 512);
}

TEST_F(segment_backing_test, the_remainder_of_a_maximum_is_taken_as_well) {
  EXPECT_EQ(asked_anew({.maximum = 800 * mib}, 2 * gib), std::vector{784 * mib});
}

TEST_F(segment_backing_test, where_the_driver_has_less_than_it_said_the_request_itself_fits) {
  auto& by = backing_with({.sparing_beyond = 0});
  by.grow(held, {.units = units(512 * mib)});
  by.grow(held, {.units = units(600 * mib)});
  pool->source.asked.clear();
  pool->source.capacity = 980 * mib;
  pool->source.left = 1000 * mib;
  by.grow(held, {.units = units(640 * mib)});
  EXPECT_EQ(pool->source.asked, (std::vector{984 * mib, 640 * mib}));
}

// Or large blocks of ever other sizes would each get a segment that is too small for the next.
TEST_F(segment_backing_test, segments_that_go_before_a_growth_come_back_as_one) {
  auto& by = backing_with({.sparing_beyond = 0});
  pool->source.left = 8 * gib;
  std::vector<space::handle> blocks;
  for (int i = 0; i < 3; ++i) {
    by.grow(held, {.units = units(512 * mib)});
    blocks.push_back(take(512 * mib));
  }
  for (space::handle const h : blocks) pool->region.put(h, space::done);
  pool->source.asked.clear();
  by.grow(held, {.units = units(600 * mib)});
  EXPECT_EQ(pool->source.asked, std::vector{1536 * mib}) << "twice what it needs, of whole segments";
  EXPECT_EQ(pool->source.segments.size(), 1u);
}

TEST_F(segment_backing_test, below_a_maximum_each_comes_back_as_it_is_needed) {
  EXPECT_EQ(asked_third({.maximum = 1000 * mib}, {480 * mib, 520 * mib, 500 * mib}), std::vector{500 * mib});
}

TEST_F(segment_backing_test, what_goes_is_not_more_than_a_small_request_needs) {
  EXPECT_EQ(asked_third({.sparing_beyond = 0}, {40 * mib, 44 * mib, 48 * mib}), std::vector{48 * mib});
}

TEST_F(segment_backing_test, a_growth_is_one_idle_segment) {
  auto& by = backing_with({});
  EXPECT_EQ(by.grow(held, {.units = units(3 * mib)}), space::none) << "a search finds it";
  EXPECT_EQ(pool->region.idle_bytes(), 4 * mib);
  EXPECT_EQ(pool->source.asked, std::vector{4 * mib}) << "in pages of the driver";
}

TEST_F(segment_backing_test, the_initial_size_is_taken_as_it_is) {
  auto& by = backing_with({.initial = 5 * mib});
  by.prepare(held);
  EXPECT_EQ(pool->region.idle_bytes(), 5 * mib);
}

TEST_F(segment_backing_test, where_a_step_is_refused_the_request_itself_may_fit) {
  auto& by = backing_with({.growth = 64 * mib});
  pool->source.capacity = 10 * mib;
  by.grow(held, {.units = units(2 * mib)});
  EXPECT_EQ(pool->source.asked, (std::vector{64 * mib, 2 * mib}));
  EXPECT_EQ(refused(by, {.units = units(9 * mib)}), "scripted: no more");
}

TEST_F(segment_backing_test, the_maximum_bounds_the_step_and_the_request) {
  auto& by = backing_with({.maximum = 10 * mib, .growth = 8 * mib});
  by.grow(held, {.units = units(1 * mib)});
  take(8 * mib);
  by.grow(held, {.units = units(1 * mib)});
  EXPECT_EQ(pool->source.asked, (std::vector{8 * mib, 2 * mib}));
  take(2 * mib);
  EXPECT_EQ(refused(by, {.units = units(1 * mib)}),
            "pool \"mine\": maximum_pool_size 10.00 MiB, reserved 10.00 MiB, asked 1.00 MiB");
  EXPECT_EQ(pool->source.asked.size(), 2u) << "the source is not asked";
}

TEST_F(segment_backing_test, near_the_end_empty_segments_go_first) {
  auto& by = backing_with({.maximum = 10 * mib});
  by.grow(held, {.units = units(4 * mib)});
  by.grow(held, {.units = units(4 * mib)});
  take(4 * mib);
  by.grow(held, {.units = units(6 * mib)});
  EXPECT_EQ(pool->region.reserved_bytes(), 10 * mib);
  EXPECT_EQ(pool->source.segments.size(), 2u);
}

TEST_F(segment_backing_test, gives_back_what_is_empty_down_to_what_is_kept) {
  auto& by = backing_with({});
  for (int i = 0; i < 3; ++i) by.grow(held, {.units = units(2 * mib)});
  space::handle const h = take(1 * mib);
  EXPECT_EQ(by.release_empty(held, 3 * mib, true), 2 * mib);
  EXPECT_EQ(by.release_empty(held, 0, true), 2 * mib) << "not the one in use";
  pool->region.put(h, space::done);
  EXPECT_EQ(by.release_empty(held, 0, true), 2 * mib);
  EXPECT_TRUE(pool->source.segments.empty());
}

TEST_F(segment_backing_test, one_that_is_to_stand_apart_holds_just_its_block) {
  auto& by = backing_with({.growth = 64 * mib});
  space::handle const h = by.grow(held, {.units = units(3 * mib), .apart = true});
  ASSERT_NE(h, space::none);
  EXPECT_EQ(pool->source.asked, std::vector{3 * mib});
  EXPECT_EQ(pool->region.idle_bytes(), 0u);
  pool->region.segments().back()->pinned = true;  // as what was exported is
  pool->region.put(h, space::withheld);
  EXPECT_EQ(by.release_withheld(held, true), 3 * mib);
}

TEST_F(segment_backing_test, apart_are_a_bounded_part) {
  auto& by = backing_with({});
  EXPECT_TRUE(by.may_make_apart(1024 * mib));
  EXPECT_FALSE(by.may_make_apart(1025 * mib));
  by.grow(held, {.units = units(1024 * mib), .apart = true});
  EXPECT_TRUE(by.may_make_apart(256 * mib)) << "a quarter of what is reserved now";
  EXPECT_FALSE(by.may_make_apart(257 * mib));
}

TEST_F(segment_backing_test, memory_of_a_context_that_ended_goes_back) {
  auto& by = backing_with({});
  here->epochs.abandon();
  EXPECT_EQ(refused(by, {.units = units(2 * mib)}), "pool: its context has ended");
  EXPECT_EQ(pool->source.held(), 0u);
}

TEST_F(segment_backing_test, room_for_an_aligned_block_wherever_the_memory_begins) {
  auto& by = backing_with({});
  pool->source.shift = space::unit;
  growth_request wanted{.units = units(2 * mib), .alignment = mib, .anywhere = true};
  by.grow(held, wanted);
  EXPECT_NE(pool->region.take(space::done, units(2 * mib), true, false, mib), space::none);
}

TEST_F(segment_backing_test, excess_goes_before_a_growth_and_comes_back_as_one) {
  auto& by = backing_with({});
  pool->source.at_once = true;
  for (std::uint64_t const bytes : {100 * mib, 120 * mib, 140 * mib}) by.grow(held, {.units = units(bytes)});
  EXPECT_EQ(pool->source.segments.size(), 1u);
  EXPECT_EQ(pool->region.reserved_bytes(), 220 * mib);
}

TEST_F(segment_backing_test, until_a_capture_begins) {
  auto& by = backing_with({});
  pool->source.at_once = true;
  pool->source.at_release = [] { stream_order::active_captures = 1; };
  for (std::uint64_t const bytes : {100 * mib, 120 * mib, 140 * mib}) by.grow(held, {.units = units(bytes)});
  stream_order::active_captures = 0;
  EXPECT_EQ(pool->source.segments.size(), 2u) << "one had gone before";
}

}  // namespace
}  // namespace gpumem::resource
