// The magazines of one suballocator: found by thread and by stream, given on, visited, emptied.
#include "core/resource/pools/cache/cache_set.hpp"

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

namespace gpumem::resource {
namespace {

constexpr auto no_slot = stream_order::no_slot;
constexpr stream_order::slot a_stream = 3;

struct cache_set_test : testing::Test {
  // Never destroyed, as in the library: threads remember their magazines by the address of the set.
  struct kept {
    base::adaptive_mutex mutex;
    cache_set set{mutex, false};
    cache_set shared{mutex, true};
  };
  kept& here = *new kept;
  cache_set& set = here.set;
  space::block_table& blocks = *new space::block_table;

  space::handle freed_block(std::uint32_t units) {
    space::handle const h = blocks.acquire();
    blocks[h].units = units;
    blocks[h].now = space::state::cached;
    blocks[h].freed = space::epoch_id{1};
    return h;
  }
};

TEST_F(cache_set_test, a_thread_finds_its_own_once_it_was_made) {
  EXPECT_EQ(set.find(no_slot), nullptr);
  magazine* const own = set.find_or_make(no_slot);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(set.find(no_slot), own);
  EXPECT_EQ(set.find_or_make(no_slot), own);
  std::jthread([&] {
    EXPECT_EQ(set.find(no_slot), nullptr) << "another thread's";
    EXPECT_NE(set.find_or_make(no_slot), own);
  }).join();
}

TEST_F(cache_set_test, a_new_thread_gets_what_an_ended_one_had) {
  magazine* first = nullptr;
  std::jthread([&] { first = set.find_or_make(no_slot); }).join();
  std::jthread([&] { EXPECT_EQ(set.find_or_make(no_slot), first); }).join();
}

TEST_F(cache_set_test, a_stream_has_one_for_all_threads) {
  magazine* const own = set.find_or_make(a_stream);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(own->stream, a_stream);
  EXPECT_EQ(set.of_stream(a_stream), own);
  EXPECT_EQ(set.of_stream(a_stream + 1), nullptr);
  std::jthread([&] { EXPECT_EQ(set.find_or_make(a_stream), own); }).join();
  EXPECT_NE(set.find_or_make(no_slot), own);
}

TEST_F(cache_set_test, one_for_all_is_shared_by_threads) {
  magazine* const own = here.shared.find_or_make(no_slot);
  ASSERT_NE(own, nullptr);
  std::jthread([&] { EXPECT_EQ(here.shared.find(no_slot), own); }).join();
}

TEST_F(cache_set_test, is_emptied_with_whose_frees_they_were) {
  space::handle const of_thread = freed_block(8), of_stream = freed_block(16);
  set.find_or_make(no_slot)->put(blocks, of_thread);
  set.find_or_make(a_stream)->put(blocks, of_stream);
  std::map<stream_order::slot, space::handle> out;
  auto const note = [&](stream_order::slot s, space::handle h) { out[s] = h; };
  {
    std::lock_guard held(here.mutex);
    set.empty(blocks, set.of_stream(a_stream), note);
  }
  EXPECT_EQ(out, (std::map<stream_order::slot, space::handle>{{a_stream, of_stream}})) << "just the one";
  {
    std::lock_guard held(here.mutex);
    set.empty(blocks, nullptr, note);
  }
  EXPECT_EQ(out,
            (std::map<stream_order::slot, space::handle>{{no_slot, of_thread}, {a_stream, space::none}}));
}

TEST_F(cache_set_test, a_visitor_sees_each_also_of_other_threads) {
  magazine* const own = set.find_or_make(no_slot);
  magazine* const of_stream = set.find_or_make(a_stream);
  std::jthread([&] {
    std::vector<magazine*> seen;
    std::lock_guard held(here.mutex);
    set.visit([&](magazine& m) { seen.push_back(&m); });
    EXPECT_EQ(seen, (std::vector{own, of_stream}));
    seen.clear();
    set.visit([&](magazine& m) { seen.push_back(&m); }, of_stream);
    EXPECT_EQ(seen, std::vector{of_stream});
  }).join();
}

TEST_F(cache_set_test, what_another_context_left_is_not_counted_until_it_is_used) {
  constexpr stream_order::slot all = stream_order::most_slots;
  set.find_or_make(no_slot);
  for (stream_order::slot s = 1; s < 6; ++s) set.find_or_make(s);
  std::jthread([&] { set.find_or_make(no_slot); }).join();
  auto const count = [&](stream_order::slot slots) {
    std::lock_guard held(here.mutex);
    return set.count(slots);
  };
  EXPECT_EQ(count(all), 7u) << "an ended thread's, too, of the first context";
  {
    std::lock_guard held(here.mutex);
    set.begin_again();
  }
  EXPECT_EQ(count(1), 1u) << "this thread's; no stream has a slot yet";
  EXPECT_EQ(count(3), 3u);
  std::jthread([&] { set.find_or_make(no_slot); }).join();
  EXPECT_EQ(count(3), 4u) << "which the new thread took over";
}

TEST_F(cache_set_test, one_that_was_never_used_leaves_its_place_to_others) {
  for (std::size_t i = 0; i < 3 * thread_slots::most; ++i) cache_set const unused(here.mutex, false);
  auto* const next = new cache_set(here.mutex, false);
  ASSERT_NE(next->find_or_make(no_slot), nullptr);
  EXPECT_NE(next->find(no_slot), set.find_or_make(no_slot));
}

}  // namespace
}  // namespace gpumem::resource
