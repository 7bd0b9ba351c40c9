// Large blocks that are freed and asked for again, one after the other: a loop that does nothing else gets
// more of them, so that one event settles several; a program that works between its calls does not, as it
// would keep that memory for good and notice nothing of the gain.
#include <algorithm>

#include "tests/unit/own_clock/own_clock.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct rotation_size : resource_fixture {
  // As on an H100: a pair takes so long, an event so much more.
  static constexpr std::uint64_t pair_ns = 100, event_ns = 1'500;
  tests::own_clock clock;

  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    driver.at_record([this] { clock.pass(event_ns); });
  }
  void pair(pool& p, std::uint64_t size) {
    give(p, get(p, size));
    clock.pass(pair_ns);
  }
  // As many rounds as an event each has to be paid for, and some; the program does something else for so long
  // after each.
  void rounds(pool& p, std::uint64_t size, std::uint64_t pause_ns) {
    for (int i = 0; i < 250 * blocks_an_event(p, size); ++i) {
      pair(p, size);
      clock.pass(pause_ns);
    }
  }
  static int blocks_an_event(pool& p, std::uint64_t size) {
    return static_cast<int>(
        std::max<std::uint64_t>(1, std::min<std::uint64_t>(p.reserved(), 2 * mib) / size));
  }
  int pairs_an_event(pool& p, std::uint64_t size) {
    constexpr int pairs = 20'000;
    int const before = driver.calls("cuCtxRecordEvent");
    for (int i = 0; i < pairs; ++i) pair(p, size);
    int const events = driver.calls("cuCtxRecordEvent") - before;
    return (pairs + events / 2) / std::max(1, events);
  }
};

TEST_F(rotation_size, a_loop_of_pairs_gets_blocks_to_take_turns) {
  pool& p = make_pool();
  rounds(p, 4 * mib, 0);
  EXPECT_EQ(p.reserved(), 264 * mib) << "256 MiB and two blocks";
  EXPECT_EQ(pairs_an_event(p, 4 * mib), 66);
  pool& large = make_pool();
  rounds(large, 16 * mib, 0);
  EXPECT_EQ(large.reserved(), 288 * mib);
  EXPECT_EQ(pairs_an_event(large, 16 * mib), 18);
}

TEST_F(rotation_size, sizes_one_after_the_other_share_one_bound) {
  pool& p = make_pool();
  for (std::uint64_t const size : {64 * kib, mib, 2 * mib, 16 * mib}) {
    int const wanted = size < 16 * mib ? 120 : 17;
    for (int i = 0; i < 10 && pairs_an_event(p, size) < wanted; ++i) rounds(p, size, 0);
    EXPECT_GE(pairs_an_event(p, size), wanted) << size;
    EXPECT_LE(p.reserved(), 256 * mib + 2 * size) << size;
  }
}

TEST_F(rotation_size, a_batch_that_is_too_small_becomes_larger) {
  pool& p = make_pool();
  for (int i = 0; i < 4; ++i) rounds(p, 64 * kib, 10'000);
  EXPECT_EQ(p.reserved(), 2 * mib) << "32 blocks, and other work between them";
  rounds(p, 64 * kib, 0);
  EXPECT_EQ(p.reserved(), 8 * mib);
}

TEST_F(rotation_size, what_went_back_may_be_taken_again) {
  pool& p = make_pool();
  for (int round = 0; round < 2; ++round) {
    rounds(p, 16 * mib, 0);
    EXPECT_EQ(p.reserved(), 288 * mib) << round;
    p.give_back(give_back_scope::all);
    EXPECT_EQ(p.reserved(), 0u);
  }
}

TEST_F(rotation_size, large_blocks_are_two) {
  pool& p = make_pool();
  rounds(p, gib, 0);
  EXPECT_EQ(p.reserved(), 2 * gib);
}

TEST_F(rotation_size, what_is_idle_already_is_not_reserved_again) {
  pool& p = make_pool();
  give(p, get(p, gib));
  give(p, get(p, gib / 2));
  for (int i = 0; i < 10; ++i) rounds(p, gib / 2, 0);
  EXPECT_EQ(p.reserved(), gib);
}

TEST_F(rotation_size, a_second_block_is_a_small_part_of_what_there_may_be) {
  pool& p = make_pool({.sparing_beyond = 31 * gib});
  for (int i = 0; i < 10; ++i) rounds(p, gib, 0);
  EXPECT_EQ(p.reserved(), gib);
}

TEST_F(rotation_size, no_more_is_kept_than_may_be_idle) {
  pool& small = make_pool({.release_threshold = 4 * mib});
  for (int i = 0; i < 10; ++i) rounds(small, 4 * mib, 0);
  EXPECT_EQ(small.reserved(), 4 * mib);
  pool& some = make_pool({.release_threshold = 64 * mib});
  rounds(some, 4 * mib, 0);
  EXPECT_EQ(some.reserved(), 64 * mib);
}

TEST_F(rotation_size, a_program_that_works_between_its_calls_keeps_no_more_than_it_asked_for) {
  pool& p = make_pool();
  for (int i = 0; i < 4; ++i) rounds(p, 4 * mib, 10'000);
  EXPECT_EQ(p.reserved(), 4 * mib);
  rounds(p, 64 * mib, 10'000);
  EXPECT_EQ(p.reserved(), 68 * mib);
}

}  // namespace
}  // namespace gpumem::resource
