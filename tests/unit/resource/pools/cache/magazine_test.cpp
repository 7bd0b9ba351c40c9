// The queues of freed blocks: oldest first, one size a row, bounded, and safe against a flush from another
// thread.
#include "core/resource/pools/cache/magazine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "core/resource/pools/cache/thread_slots.hpp"

namespace gpumem::resource {
namespace {

using space::handle;
using space::none;

struct magazine_test : testing::Test {
  space::block_table blocks;
  magazine kept;

  void SetUp() override { ASSERT_NE(attach_thread(), nullptr); }

  // As a suballocator empties it, from any thread.
  handle visited() {
    if (kept.announce()) base::barrier_on_all_threads();
    kept.enter();
    handle const all = kept.empty(blocks);
    kept.leave();
    return all;
  }

  // The same for a look: all bytes, and those that are not done.
  template <typename Predicate>
  std::pair<std::uint64_t, std::uint64_t> measured(Predicate is_done) {
    std::uint64_t all = 0, pending = 0;
    if (kept.announce()) base::barrier_on_all_threads();
    kept.enter();
    kept.measure(blocks, is_done, all, pending);
    kept.leave();
    return {all, pending};
  }

  handle make(std::uint32_t units, space::epoch_id freed = 0) {
    handle const h = blocks.acquire();
    blocks[h].units = units;
    blocks[h].freed = freed;
    blocks[h].now.store(space::state::cached);
    return h;
  }
  cache_look look;
  handle take(std::uint32_t units, space::epoch_id done) {
    look = {};
    return kept.take(
        blocks, units, [&](space::epoch_id s) { return s <= done; }, look);
  }
  handle try_take(std::uint32_t units, space::epoch_id done) {
    look = {};
    return kept.try_take(
        blocks, units, [&](space::epoch_id s) { return s <= done; }, look);
  }
  bool put_at_once(handle h) { return kept.put_at_once(blocks, h, blocks[h]); }
  std::size_t length(handle h) {
    std::size_t count = 0;
    for (; h != none; h = blocks[h].next) ++count;
    return count;
  }
};

// A path without a call serves the thread that the magazine belongs to.
TEST_F(magazine_test, beyond_what_it_keeps_one_of_each_coarse_size_stays) {
  kept.belongs_to_this_thread();
  kept.keep_up_to(512, 16384);
  handle const small[2] = {make(512), make(512)};
  EXPECT_TRUE(put_at_once(small[0]) && put_at_once(small[1]));
  handle const first = make(640), second = make(640);
  EXPECT_TRUE(put_at_once(first));
  EXPECT_FALSE(put_at_once(second)) << "one";
  EXPECT_EQ(kept.put(blocks, second), second);
  EXPECT_FALSE(put_at_once(make(648))) << "four sizes in a doubling";
  EXPECT_TRUE(put_at_once(make(768)));
  EXPECT_TRUE(put_at_once(make(16384)));
  EXPECT_FALSE(put_at_once(make(20480))) << "larger than those that may";
  EXPECT_EQ(take(640, 0), first);
  EXPECT_TRUE(put_at_once(second));
  EXPECT_EQ(length(visited()), 5u);
}

TEST_F(magazine_test, several_of_a_coarse_size_stay_as_long_as_they_are_few_bytes) {
  kept.belongs_to_this_thread();
  kept.keep_up_to(512, 16384, 2048);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(put_at_once(make(640))) << i;
  EXPECT_FALSE(put_at_once(make(640))) << "2,560 units";
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(put_at_once(make(1024))) << i;
  EXPECT_FALSE(put_at_once(make(1024))) << "3,072 units";
  EXPECT_TRUE(put_at_once(make(4096))) << "one, however large";
  EXPECT_FALSE(put_at_once(make(4096)));
  kept.keep_up_to(512, 512);
  EXPECT_FALSE(put_at_once(make(1280))) << "none any more";
  EXPECT_EQ(length(visited()), 6u);
}

TEST_F(magazine_test, at_once_is_for_its_own_thread_and_does_nothing_for_others) {
  handle const h = make(3, 7);
  EXPECT_FALSE(put_at_once(h)) << "nobody's";
  kept.belongs_to_this_thread();
  if (!base::has_barrier()) GTEST_SKIP() << "no membarrier here: magazines belong to nobody";
  EXPECT_TRUE(put_at_once(h));
  std::thread([&] {
    EXPECT_EQ(try_take(3, 9), none);
    EXPECT_FALSE(put_at_once(make(3)));
  }).join();
  EXPECT_EQ(try_take(4, 9), none) << "another size";
  EXPECT_FALSE(look.waits);
  EXPECT_EQ(try_take(3, 6), none);
  EXPECT_EQ(look.waiting, 7u);
  EXPECT_EQ(try_take(3, 7), h);
  EXPECT_EQ(blocks[h].now.load(), space::state::live);
  EXPECT_EQ(try_take(3, 7), none);
}

// Of a context that has ended it is nobody's to keep, and maybe another's to use.
TEST_F(magazine_test, a_block_that_is_no_more_is_left_alone) {
  kept.belongs_to_this_thread();
  handle const h = make(3, 7);
  blocks[h].next = 77;
  auto const gone = [](space::block const&) { return false; };
  auto const still = [](space::block& b) { return b.freed = 8, true; };
  EXPECT_EQ(kept.put(blocks, h, gone), none);
  EXPECT_FALSE(kept.put_at_once(blocks, h, blocks[h], gone));
  EXPECT_EQ(blocks[h].next, 77u);
  EXPECT_EQ(take(3, 9), none);
  EXPECT_EQ(kept.put(blocks, h, still), none);
  EXPECT_EQ(take(3, 7), none);
  EXPECT_EQ(take(3, 8), h);
}

TEST_F(magazine_test, at_once_leaves_it_where_others_would_have_to_make_room) {
  kept.belongs_to_this_thread();
  if (!base::has_barrier()) GTEST_SKIP() << "no membarrier here: magazines belong to nobody";
  for (int i = 0; i < 512; ++i) EXPECT_TRUE(put_at_once(make(3)));
  handle const h = make(3);
  EXPECT_FALSE(put_at_once(h));
  EXPECT_EQ(length(kept.put(blocks, h)), 512u);
  EXPECT_EQ(length(visited()), 1u);
}

TEST_F(magazine_test, of_a_stream_the_newest_comes_first) {
  kept.stream = 5;
  handle const first = make(3, 1), second = make(3, 2), third = make(3, 3);
  for (handle const h : {first, second, third}) EXPECT_EQ(kept.put(blocks, h), none);
  EXPECT_EQ(take(3, 9), third);
  EXPECT_EQ(kept.put(blocks, third), none);
  EXPECT_EQ(take(3, 9), third);
  EXPECT_EQ(take(3, 9), second);
  EXPECT_EQ(take(3, 9), first);
  EXPECT_EQ(take(3, 9), none);
}

TEST_F(magazine_test, the_oldest_of_a_size_comes_first_and_only_when_done) {
  handle const first = make(3, 1), second = make(3, 2);
  EXPECT_EQ(kept.put(blocks, first), none);
  EXPECT_EQ(kept.put(blocks, second), none);
  EXPECT_EQ(take(3, 0), none);
  EXPECT_EQ(look.waiting, 2u) << "an event for the youngest settles them all";
  EXPECT_EQ(take(4, 9), none);
  EXPECT_FALSE(look.waits);
  EXPECT_EQ(take(3, 1), first);
  EXPECT_EQ(blocks[first].now.load(), space::state::live);
  EXPECT_EQ(take(3, 1), none);
  EXPECT_EQ(take(3, 2), second);
  EXPECT_EQ(take(3, 2), none);
}

// Two sizes of one row: the newcomer takes it over, all that was there comes out.
TEST_F(magazine_test, a_row_holds_one_size) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t units = 1; sizes.size() < 65; ++units) sizes.push_back(units);
  std::size_t evicted = 0;
  for (std::uint32_t const units : sizes) {
    handle const out = kept.put(blocks, make(units));
    for (handle h = out; h != none; h = blocks[h].next) EXPECT_NE(blocks[h].units, units);
    evicted += length(out);
  }
  EXPECT_GE(evicted, 1u) << "65 sizes in 64 rows";
  auto const [all, pending] = measured([](space::epoch_id) { return true; });
  std::size_t found = 0;
  std::uint64_t bytes = 0;
  for (std::uint32_t const units : sizes) {
    if (take(units, 0) == none) continue;
    ++found;
    bytes += units * space::unit;
  }
  EXPECT_EQ(found + evicted, sizes.size());
  EXPECT_EQ(all, bytes);
}

TEST_F(magazine_test, too_many_of_a_size_come_out_together) {
  std::size_t evicted = 0;
  for (int i = 0; i < 513; ++i) evicted += length(kept.put(blocks, make(5)));
  EXPECT_EQ(evicted, 512u);
  EXPECT_NE(take(5, 0), none);
  EXPECT_EQ(take(5, 0), none);
}

TEST_F(magazine_test, measures_what_waits) {
  for (space::epoch_id s = 1; s <= 4; ++s) kept.put(blocks, make(2, s));
  auto const [all, pending] = measured([](space::epoch_id s) { return s <= 1; });
  EXPECT_EQ(all, 8 * space::unit);
  EXPECT_EQ(pending, 6 * space::unit);
}

TEST_F(magazine_test, an_event_is_worth_it_for_many_frees_or_many_bytes_of_the_open_epoch) {
  constexpr std::uint32_t small = 2;
  EXPECT_FALSE(kept.worth_an_event(0, small));
  for (int i = 0; i < 127; ++i) kept.put(blocks, make(2, 7));
  EXPECT_FALSE(kept.worth_an_event(7, small));
  kept.put(blocks, make(2, 7));
  EXPECT_TRUE(kept.worth_an_event(7, small));
  EXPECT_FALSE(kept.worth_an_event(8, small));
  kept.put(blocks, make((200u << 20) / space::unit, 8));
  EXPECT_TRUE(kept.worth_an_event(8, small));
}

TEST_F(magazine_test, a_block_that_can_be_no_batch_is_worth_an_event_by_itself) {
  constexpr std::uint32_t mebibyte = (1u << 20) / space::unit;
  kept.put(blocks, make(64 * mebibyte, 7));
  EXPECT_TRUE(kept.worth_an_event(7, 64 * mebibyte));
  EXPECT_FALSE(kept.worth_an_event(8, 64 * mebibyte));
  EXPECT_FALSE(kept.worth_an_event(7, 32 * mebibyte));
}

TEST_F(magazine_test, where_requests_wait_for_the_gpu_an_event_comes_sooner) {
  constexpr std::uint32_t small = 16, large = (64u << 20) / space::unit;
  kept.put(blocks, make(small, 7));
  EXPECT_FALSE(kept.worth_an_event(7, small));
  kept.look_after(small * space::unit);
  EXPECT_TRUE(kept.waits_for_gpu());
  EXPECT_TRUE(kept.worth_an_event(7, small));
  kept.look_later();
  EXPECT_FALSE(kept.worth_an_event(7, small));
  for (int i = 0; i < 20; ++i) kept.look_later();
  EXPECT_FALSE(kept.waits_for_gpu());
  kept.put(blocks, make(large, 8));
  EXPECT_TRUE(kept.worth_an_event(8, large));
  kept.look_after(std::uint64_t{2} * large * space::unit);
  EXPECT_FALSE(kept.worth_an_event(8, large)) << "two of them share one";
  kept.put(blocks, make(large, 8));
  EXPECT_TRUE(kept.worth_an_event(8, large));
  kept.look_later();
  EXPECT_FALSE(kept.waits_for_gpu());
}

TEST_F(magazine_test, an_event_waits_for_all_that_take_turns) {
  constexpr std::uint32_t large = (16u << 20) / space::unit;
  EXPECT_EQ(kept.rotation_size(large), 0u);
  kept.take_turns(large, 18);
  EXPECT_EQ(kept.rotation_size(large), 18u);
  EXPECT_EQ(kept.rotation_size(large / 2), 0u);
  for (int i = 0; i < 17; ++i) kept.put(blocks, make(large, 7));
  EXPECT_FALSE(kept.worth_an_event(7, large));
  EXPECT_TRUE(kept.worth_an_event(7, large / 2)) << "another size has the usual rule";
  kept.put(blocks, make(large, 7));
  EXPECT_TRUE(kept.worth_an_event(7, large));
}

TEST_F(magazine_test, emptied_from_a_size_on_it_keeps_what_is_smaller) {
  handle const small = make(100), same = make(500), shared = make(5000);
  for (handle const h : {small, same, shared}) EXPECT_EQ(kept.put(blocks, h), none);
  kept.announce();
  kept.enter();
  handle const all = kept.empty(blocks, 500);
  EXPECT_EQ(kept.bytes(), 100 * space::unit);
  kept.leave();
  EXPECT_EQ(std::minmax(all, blocks[all].next), std::minmax(same, shared));
  EXPECT_EQ(take(100, 0), small);
  EXPECT_EQ(take(500, 0), none);
}

TEST_F(magazine_test, large_ones_of_a_stream_stay_from_the_second_request_in_a_row_on) {
  kept.belongs_to_this_thread();
  kept.stream = 3;
  std::uint32_t const large = size_classes::largest + 1;
  kept.note_asked(large);
  handle const first = make(large);
  EXPECT_FALSE(put_at_once(first));
  EXPECT_EQ(kept.put(blocks, first), first);
  kept.note_asked(large);
  EXPECT_TRUE(put_at_once(first));
  EXPECT_EQ(take(large, 0), first);
  EXPECT_TRUE(put_at_once(make(size_classes::largest))) << "of a class";
  kept.stream = stream_order::no_slot;
  EXPECT_TRUE(put_at_once(make(large + 1))) << "of a thread";
}

TEST_F(magazine_test, emptied_it_hands_over_everything) {
  for (std::uint32_t units = 1; units <= 20; ++units) kept.put(blocks, make(units));
  EXPECT_EQ(length(visited()), 20u);
  EXPECT_EQ(take(1, 0), none);
  auto const [all, pending] = measured([](space::epoch_id) { return true; });
  EXPECT_EQ(all, 0u);
}

// Once with the lock biased to the thread that puts and takes, once without.
TEST_F(magazine_test, no_block_is_lost_or_doubled_when_another_thread_empties_it) {
  for (bool const biased : {false, true}) {
    if (biased) kept.belongs_to_this_thread();
    std::atomic<bool> stop{false};
    std::vector<handle> emptied;
    std::jthread other([&] {
      while (!stop.load()) {
        for (handle h = visited(); h != none; h = blocks[h].next) emptied.push_back(h);
        // The lock is not fair: one that has it nearly always keeps the other out for minutes.
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
    std::size_t put = 0, taken = 0, evicted = 0;
    for (int i = 0; i < 20'000; ++i) {
      evicted += length(kept.put(blocks, make(1 + static_cast<std::uint32_t>(i % 7))));
      ++put;
      if (i % 3 == 0 && take(1 + static_cast<std::uint32_t>(i % 7), 0) != none) ++taken;
    }
    stop = true;
    other.join();
    for (handle h = visited(); h != none; h = blocks[h].next) emptied.push_back(h);
    EXPECT_EQ(put, taken + evicted + emptied.size());
    std::sort(emptied.begin(), emptied.end());
    EXPECT_EQ(std::adjacent_find(emptied.begin(), emptied.end()), emptied.end());
  }
}

}  // namespace
}  // namespace gpumem::resource
