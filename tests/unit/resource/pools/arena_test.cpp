// An arena: who gets which part, whose block a freed one is, and that parts do not keep memory from each
// other.
#include "core/resource/pools/arena.hpp"

#include <unistd.h>

#include <barrier>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/log/log.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct arenas : resource_fixture {
  static inline resource* relieved = nullptr;

  arena& make_arena(std::uint64_t size = ~0ull, arena_options const& o = {}) {
    // As the router does: every resource of the context, top first.
    here->home.relieve = [](CUcontext, give_back_scope scope) { return relieved->give_back(scope); };
    below = &make<suballocator>(suballocator_options{.maximum = size}, here->cuda, "superblocks");
    arena& made = make<arena>(o, *below);
    relieved = &made;
    return made;
  }
  resource* owner(space::handle h) { return &owner_of(here->where, h); }
  // Of the first arena of a test: the pool below was made before it.
  static stats::node_counters const& counters() { return stats::local().nodes[2]; }
  void settle() { here->epochs.synchronize_done(here->epochs.synchronize_begins()); }

  suballocator* below = nullptr;
};

TEST_F(arenas, each_stream_has_a_part_and_so_has_each_thread) {
  arena& a = make_arena();
  space::handle const first = get(a, 1000, 1), second = get(a, 1000, 2), again = get(a, 1000, 1);
  EXPECT_NE(owner(first), owner(second));
  EXPECT_EQ(owner(first), owner(again));
  space::handle const here_now = get(a, 1000);
  space::handle elsewhere = space::none;
  std::jthread([&] { elsewhere = get(a, 1000); }).join();
  EXPECT_NE(owner(here_now), owner(first));
  EXPECT_NE(owner(here_now), owner(elsewhere));
}

// A part gives back what is idle beyond 64 MiB, so that such a block would never lie there for the next one.
TEST_F(arenas, what_no_part_would_keep_comes_from_the_pool_below) {
  arena& a = make_arena();
  space::handle const small = get(a, 64 * mib, 1), large = get(a, 64 * mib + 1, 1);
  EXPECT_NE(owner(small), below);
  EXPECT_EQ(owner(large), below);
  stats::node_counters const before = counters();
  give(a, large, 1);
  space::handle const again = get(a, 64 * mib + 1, 2);
  EXPECT_EQ(counters().requests - before.requests, 1u);
  EXPECT_EQ(counters().bytes_out - before.bytes_out, block(large).bytes());
  EXPECT_EQ(counters().bytes_in - before.bytes_in, block(again).bytes());
}

TEST_F(arenas, blocks_that_a_context_takes_along_count_once) {
  arena& a = make_arena();
  stats::node_counters const before = counters();
  for (std::uint64_t const bytes : {mib, 65 * mib}) block(get(a, bytes, 1)).mark(space::mapped);
  a.forget();
  below->forget();
  EXPECT_EQ(counters().bytes_in - before.bytes_in, 66 * mib);
  EXPECT_EQ(counters().bytes_out - before.bytes_out, 66 * mib);
}

TEST_F(arenas, per_thread_a_stream_makes_no_difference) {
  arena& a = make_arena(~0ull, {.per_stream = false});
  EXPECT_EQ(owner(get(a, 1000, 1)), owner(get(a, 1000, 2)));
  EXPECT_EQ(owner(get(a, 1000, 1)), owner(get(a, 1000)));
}

// The pool below has had all given back that is idle on the device before it refuses.
TEST_F(arenas, a_part_that_was_refused_does_not_ask_the_pool_below_again) {
  driver.manual_events(false);
  driver.set_capacity(79 * mib);  // as in no other test, so that nothing is known of it
  arena& a = make_arena();
  get(a, 60 * mib);
  EXPECT_EQ(refusal(a, 60 * mib + 512), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), 2);
  int const looks = driver.calls("cuMemGetInfo_v2");
  EXPECT_EQ(refusal(a, 60 * mib + 512), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), 2);
  EXPECT_EQ(driver.calls("cuMemGetInfo_v2") - looks, 2) << "once before others gave back, once after";
}

TEST_F(arenas, a_block_of_the_pool_below_serves_though_it_is_no_whole_pages) {
  driver.manual_events(false);
  here->home.relieve = [](CUcontext, give_back_scope scope) { return relieved->give_back(scope); };
  below = &make<suballocator>(suballocator_options{.initial = 6 * mib}, here->cuda, "superblocks");
  below->prepare();
  get(*below, 1 * mib);
  arena& a = make<arena>(arena_options{}, *below);
  relieved = &a;
  driver.set_capacity(6 * mib);
  EXPECT_EQ(refusal(a, 5 * mib), CUDA_SUCCESS) << "6 MiB are not there";
}

// RMM's arena keeps what a stream ever had at most; the sum over 48 streams was eight times what was in use.
TEST_F(arenas, what_one_part_has_idle_serves_another_before_all_of_them_grow) {
  driver.manual_events(false);
  arena& a = make_arena();
  for (stream_order::slot s = 1; s < 40; ++s) {
    give(a, get(a, 32 * mib, s), s);
    settle();
  }
  EXPECT_LE(below->reserved(), 256 * mib);
}

// A growth each would make them wait for one another in the driver.
TEST_F(arenas, from_64_mib_on_a_growth_is_for_many_parts) {
  arena& a = make_arena();
  stream_order::slot s = 1;
  for (; below->reserved() < 64 * mib; ++s) get(a, 4 * mib, s);
  int const before = driver.calls("cuMemAlloc_v2");
  EXPECT_EQ(before, 16) << "below it takes what is asked for";
  for (int i = 0; i < 8; ++i) get(a, 4 * mib, s++);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), before + 1);
  EXPECT_EQ(below->reserved(), 96 * mib);
}

TEST_F(arenas, near_its_end_a_growth_is_for_one) {
  arena& a = make_arena(80 * mib);
  for (stream_order::slot s = 1; s <= 20; ++s) get(a, 4 * mib, s);
  EXPECT_EQ(below->reserved(), 80 * mib);
}

// Nobody has asked the driver since: the look at a part does.
TEST_F(arenas, what_parts_have_idle_is_found_to_be_done) {
  driver.manual_events(false);
  arena& a = make_arena();
  for (stream_order::slot s = 1; s < 40; ++s) give(a, get(a, 32 * mib, s), s);
  EXPECT_LE(below->reserved(), 320 * mib);
}

// What they have is about to go back to the driver, and would come again in other pieces.
TEST_F(arenas, where_memory_is_short_few_parts_give_theirs_as_well) {
  driver.manual_events(false);
  arena& a = make_arena(90 * mib);
  give(a, get(a, 64 * mib, 1), 1);
  settle();
  get(a, 50 * mib, 2);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), 1);
  EXPECT_EQ(driver.frees(), 0);
}

// As many bytes as are asked for are of no use where they do not lie together.
TEST_F(arenas, parts_are_asked_until_the_request_fits) {
  driver.manual_events(false);
  arena& a = make_arena();
  give(a, get(a, 128 * mib, 60), 60);
  settle();
  std::vector<std::pair<space::handle, stream_order::slot>> held;
  for (stream_order::slot s = 1; s <= 4; ++s) held.emplace_back(get(a, 33 * mib, s), s);
  for (stream_order::slot s = 10; s <= 25; ++s) held.emplace_back(get(a, 8 * mib, s), s);
  std::uint64_t const before = below->reserved();
  for (auto const& [h, s] : held) give(a, h, s);
  settle();
  get(a, 100 * mib, 30);
  EXPECT_EQ(below->reserved(), before);
}

TEST_F(arenas, parts_give_while_their_streams_work_and_no_two_blocks_overlap) {
  driver.manual_events(false);
  arena& a = make_arena();
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> live;  // end by begin
  std::atomic<int> overlaps{0};
  auto const work = [&](int own) {
    std::vector<std::pair<space::handle, stream_order::slot>> held;
    std::uint64_t random = static_cast<std::uint64_t>(own) + 1;
    for (int i = 0; i < 400; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      auto const slot = static_cast<stream_order::slot>(1 + own * 10 + i % 10);
      space::handle const h = get(a, (1 + (random >> 33) % 32) * mib, slot);
      {
        std::lock_guard const lock(mutex);
        std::uint64_t const begin = block(h).begin(), end = begin + block(h).bytes();
        auto const next = live.lower_bound(begin);
        if (next != live.end() && next->first < end) ++overlaps;
        if (next != live.begin() && std::prev(next)->second > begin) ++overlaps;
        live[begin] = end;
      }
      held.emplace_back(h, slot);
      if (held.size() < 3) continue;
      {
        std::lock_guard const lock(mutex);
        live.erase(block(held.front().first).begin());
      }
      give(a, held.front().first, held.front().second);
      held.erase(held.begin());
      if (i % 16 == 0) settle();
    }
  };
  {
    std::vector<std::jthread> team;
    for (int own = 0; own < 4; ++own) team.emplace_back(work, own);
  }
  EXPECT_EQ(overlaps.load(), 0);
}

TEST_F(arenas, work_that_runs_is_not_taken_from_another_part) {
  arena& a = make_arena();
  for (stream_order::slot s = 1; s < 10; ++s) give(a, get(a, 32 * mib, s), s);
  EXPECT_EQ(below->reserved(), 9 * 32 * mib);
}

// RMM's arena lost or raced for what a thread left behind when it ended (its issue 1393).
TEST_F(arenas, the_next_thread_takes_over_what_an_ended_one_left) {
  driver.manual_events(false);
  arena& a = make_arena();
  get(a, 1000);
  std::set<resource*> owners;
  for (int i = 0; i < 200; ++i) {
    std::jthread([&] {
      space::handle const h = get(a, 1 * mib);
      owners.insert(owner(h));
      give(a, h);
    }).join();
  }
  EXPECT_EQ(owners.size(), 1u);
  EXPECT_EQ(driver.used(), 4 * mib) << "a superblock for each of two threads";
}

TEST_F(arenas, a_block_goes_back_to_its_part_in_stream_order) {
  arena& a = make_arena();
  space::handle const h = get(a, 1 * mib, 1);
  give(a, h, 2);
  // Freed after stream 2's work: neither stream may have it before that is done, the other one's part never.
  space::handle const meanwhile = get(a, 1 * mib, 1);
  EXPECT_NE(block(meanwhile).begin(), block(h).begin());
  settle();
  driver.manual_events(false);
  give(a, meanwhile, 1);
  std::set<std::uint64_t> served;
  for (int i = 0; i < 2; ++i) served.insert(block(get(a, 1 * mib, 1)).begin());
  EXPECT_TRUE(served.contains(block(h).begin()));
}

TEST_F(arenas, a_block_freed_by_another_thread_serves_its_own_part) {
  driver.manual_events(false);
  arena& a = make_arena();
  space::handle const h = get(a, 1000);
  std::jthread([&] { give(a, h); }).join();
  settle();
  EXPECT_EQ(get(a, 1000), h);
}

TEST_F(arenas, a_hit_makes_no_driver_call_and_touches_no_other_part) {
  arena& a = make_arena();
  space::handle const h = get(a, 1000);
  give(a, h);
  settle();
  int const calls = driver.calls_in_all();
  EXPECT_EQ(get(a, 1000), h);
  EXPECT_EQ(driver.calls_in_all(), calls);
  EXPECT_RUNG(rung_cached, 1);
}

TEST_F(arenas, arena_size_bounds_all_parts_together) {
  driver.manual_events(false);
  arena& a = make_arena(64 * mib);
  for (stream_order::slot s = 1; s <= 8; ++s) get(a, 8 * mib, s);
  EXPECT_EQ(driver.used(), 64 * mib);
  EXPECT_EQ(refusal(a, 8 * mib, 9), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.used(), 64 * mib);
}

// Freed superblocks serve other parts: the free ends of one another's are not what a request fails for.
TEST_F(arenas, what_one_part_leaves_serves_another) {
  driver.manual_events(false);
  arena& a = make_arena(64 * mib);
  space::handle const small = get(a, 512, 20);
  std::vector<space::handle> first;
  for (int i = 0; i < 7; ++i) first.push_back(get(a, 8 * mib, 1));
  for (space::handle const h : first) give(a, h, 1);
  EXPECT_EQ(refusal(a, 48 * mib, 2), CUDA_SUCCESS);
  EXPECT_EQ(block(small).now.load(), space::state::live);
}

TEST_F(arenas, more_threads_and_streams_than_parts_share_them) {
  driver.manual_events(false);
  arena& a = make_arena();
  for (stream_order::slot s = 1; s <= 200; ++s) get(a, 1000, s);
  std::vector<std::jthread> threads;
  std::barrier all(150);
  std::atomic<int> served{0};
  for (int t = 0; t < 150; ++t) {
    threads.emplace_back([&] {
      all.arrive_and_wait();
      for (int i = 0; i < 20; ++i) {
        space::handle const h = get(a, 1000);
        served += h != space::none ? 1 : 0;
        give(a, h);
      }
      all.arrive_and_wait();
    });
  }
  threads.clear();
  EXPECT_EQ(served.load(), 150 * 20);
}

TEST_F(arenas, gives_all_back_and_measures_it) {
  driver.manual_events(false);
  arena& a = make_arena();
  std::vector<space::handle> all;
  for (stream_order::slot s = 1; s <= 5; ++s) all.push_back(get(a, 3 * mib, s));
  for (space::handle const h : all) give(a, h);
  EXPECT_EQ(a.measure().idle + below->measure().idle, driver.used());
  EXPECT_EQ(a.idle(), a.measure().idle);
  a.give_back(give_back_scope::all);
  EXPECT_EQ(driver.used(), 0u);
  EXPECT_EQ(a.measure().idle, 0u);
}

TEST_F(arenas, a_failure_dumps_every_part_when_asked) {
  driver.manual_events(false);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  base::start_log(pipe_ends[1], base::log_level::warn);
  arena& a = make_arena(8 * mib, {.dump_log_on_failure = true});
  get(a, 1000, 3);
  get(a, 1000);
  EXPECT_EQ(refusal(a, 64 * mib, 5), CUDA_ERROR_OUT_OF_MEMORY);
  base::start_log(2, base::log_level::warn);
  char text[4096] = {};
  ASSERT_GT(read(pipe_ends[0], text, sizeof text - 1), 0);
  for (char const* wanted :
       {"superblocks: 4.0 MiB", "part of stream 3: 2.0 MiB, 2.0 MiB idle", "part of thread"})
    EXPECT_NE(std::string(text).find(wanted), std::string::npos) << wanted << " in\n" << text;
  for (int const end : pipe_ends) close(end);
}

}  // namespace
}  // namespace gpumem::resource
