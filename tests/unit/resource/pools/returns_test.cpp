// Memory that goes back to the driver while nobody is short of it: what was not in use for release_after, and
// large blocks whose size has not come back. The time is the test's own.
#include <chrono>
#include <thread>
#include <vector>

#include "core/upstream/vmm.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

constexpr std::uint64_t second = 1'000'000'000;

struct returns : resource_fixture {
  std::uint64_t now = base::now_ns();
  bool in_a_free = true;

  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    free_duties = 0;
  }
  pool& with(pool_options o = {}) {
    o.release_after = second;
    if (o.earned_from == ~std::uint64_t{0}) o.earned_from = 64 * mib;
    return make_pool(o);
  }
  // As the router does at a free, so much later.
  void look(resource& p, std::uint64_t later = 0) {
    now += later;
    p.give_back_due({.now = now, .in_a_free = in_a_free});
  }
  void give_unproven(pool& p, space::handle h) {
    ASSERT_TRUE(block(h).is(space::unproven));
    block(h).unmark(space::unproven);
    block(h).now = space::state::cached;
    p.deallocate_unproven(h, {});
  }
  // Looks often enough for so long.
  void pass(resource& p, std::uint64_t time) {
    for (std::uint64_t gone = 0; gone < time; gone += second / 8) look(p, second / 8);
  }
};

TEST_F(returns, an_empty_segment_goes_when_it_is_old_and_not_before) {
  pool& p = with();
  space::handle const h = get(p, 32 * mib);
  look(p);
  give(p, h);
  pass(p, second / 2);
  EXPECT_EQ(p.reserved(), 32 * mib);
  pass(p, second);
  EXPECT_EQ(p.reserved(), 0u) << "out of the magazine, and back";
}

struct returns_of_many : returns {
  pool& with_sharers(pool_options const& o, stream_order::slot sharers = 8) {
    pool& p = with(o);
    share(p, sharers);
    return p;
  }
  // Grows while 128 MiB are idle, which do not fit.
  void grow_beside_idle_memory(resource& p) {
    space::handle const a = get(p, 64 * mib), b = get(p, 64 * mib);
    give(p, a);
    give(p, b);
    get(p, 100 * mib);
  }
};

TEST_F(returns_of_many, what_growths_left_empty_goes_at_the_next_free) {
  pool& p = with_sharers({});
  grow_beside_idle_memory(p);
  EXPECT_GE(p.reserved(), 228 * mib);
  in_a_free = false;
  look(p);
  EXPECT_GE(p.reserved(), 228 * mib) << "a synchronisation natively frees nothing";
  in_a_free = true;
  EXPECT_NE(free_duties & gives_back, 0);
  look(p);
  EXPECT_LE(p.reserved(), 112 * mib);
  EXPECT_LE(driver.used(), 112 * mib);
}

TEST_F(returns_of_many, nothing_of_it_goes_before_its_work_is_done_nor_of_what_few_share) {
  pool& busy = with_sharers({});
  driver.manual_events(true);
  grow_beside_idle_memory(busy);
  look(busy);
  EXPECT_GE(busy.reserved(), 228 * mib);
  driver.manual_events(false);
  pool& of_few = with_sharers({}, 3);
  grow_beside_idle_memory(of_few);
  look(of_few);
  EXPECT_GE(of_few.reserved(), 228 * mib);
}

// One thread's arena is no pool of many.
TEST_F(returns_of_many, nor_is_what_the_parts_of_an_arena_share_unless_they_are_many) {
  for (int const parts : {7, 8}) {
    auto& superblocks =
        make<suballocator>(suballocator_options{.release_after = second}, here->cuda, "superblocks");
    for (int i = 0; i < parts; ++i) superblocks.count_part();
    grow_beside_idle_memory(superblocks);
    look(superblocks);
    EXPECT_EQ(superblocks.reserved() >= 228 * mib, parts == 7) << parts << " parts";
    EXPECT_EQ(superblocks.reserved() <= 112 * mib, parts == 8) << parts << " parts";
  }
}

// The driver takes longer for more bytes; the free in which it happens must not.
struct slow_to_take_back : source {
  explicit slow_to_take_back(source& segments) : real(segments) {}
  extent reserve(allocation_request const& request) override { return real.reserve(request); }
  void release(extent const& memory, release_order const& order) noexcept override {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    real.release(memory, order);
  }
  void lost(extent const& memory) noexcept override { real.lost(memory); }

  source& real;
};

TEST_F(returns_of_many, it_ends_when_its_time_is_over) {
  now = 0;  // the first look is on the clock
  auto& slow = below<slow_to_take_back>(here->cuda);
  pool& p = make<pool>(pool_options{.release_after = second}, slow);
  share(p);
  std::vector<space::handle> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(get(p, 32 * mib));
  for (space::handle const h : blocks) give(p, h);
  get(p, 100 * mib);
  std::uint64_t const before = p.reserved();
  look(p, base::now_ns());
  EXPECT_LT(p.reserved(), before);
  EXPECT_GE(p.reserved(), before - 2 * 32 * mib) << "20 ms";
}

// The free in which it goes back waits for the driver, beside which another thread begins a capture.
struct beside_a_capture_that_begins : returns_of_many {
  int went = 0;

  void SetUp() override {
    returns::SetUp();
    driver.at_free([this] {
      if (went++ == 0) ++stream_order::active_captures;
    });
  }
  void TearDown() override {
    driver.at_free({});
    if (went > 0) --stream_order::active_captures;
    returns::TearDown();
  }
  void get_and_give(resource& p, int count, std::uint64_t bytes) {
    std::vector<space::handle> blocks;
    for (int i = 0; i < count; ++i) blocks.push_back(get(p, bytes));
    for (space::handle const h : blocks) give(p, h);
  }
};

TEST_F(beside_a_capture_that_begins, no_more_of_what_growths_left_goes) {
  pool& p = with_sharers({});
  get_and_give(p, 6, 32 * mib);
  get(p, 100 * mib);
  look(p);
  EXPECT_EQ(went, 1);
}

TEST_F(beside_a_capture_that_begins, no_more_of_what_is_old_goes) {
  pool& p = with();
  get_and_give(p, 6, 32 * mib);
  pass(p, second);
  for (int i = 0; i < 16 && went == 0; ++i) look(p, second / 8);
  EXPECT_EQ(went, 1);
}

TEST_F(returns_of_many, what_is_to_stay_stays) {
  pool& p = with_sharers({.initial_pool_size = 160 * mib});
  grow_beside_idle_memory(p);
  get(p, 200 * mib);
  look(p);
  EXPECT_GE(p.reserved(), 160 * mib);
}

TEST_F(returns, what_is_used_again_in_time_stays) {
  pool& p = with();
  look(p);
  for (int round = 0; round < 10; ++round) {
    give(p, get(p, 32 * mib));
    pass(p, second / 2);
    EXPECT_EQ(p.reserved(), 32 * mib);
  }
}

TEST_F(returns, nothing_goes_while_its_work_runs) {
  pool& p = with();
  space::handle const h = get(p, 32 * mib);
  look(p);
  driver.manual_events(true);
  give(p, h);
  pass(p, 3 * second);
  EXPECT_EQ(p.reserved(), 32 * mib);
}

TEST_F(returns, beside_other_work_it_goes_in_a_free_and_after_a_while_alone) {
  pool& p = with();
  space::handle const h = get(p, 32 * mib);
  look(p);
  give(p, h);
  here->epochs.collect(here->epochs.open());
  pass(p, second / 2);
  driver.manual_events(true);  // the GPU has work from now on; the block's is done
  in_a_free = false;
  pass(p, 4 * second);
  EXPECT_EQ(p.reserved(), 32 * mib) << "a synchronisation would wait for what it does not wait for natively";
  in_a_free = true;
  look(p, second / 8);
  EXPECT_EQ(p.reserved(), 32 * mib);
  pass(p, 2 * second);
  EXPECT_EQ(p.reserved(), 0u);
}

TEST_F(returns, a_large_block_goes_at_its_free_unless_its_size_came_back) {
  pool& p = with();
  give_unproven(p, get(p, 128 * mib));
  EXPECT_EQ(free_duties.load() & gives_back, gives_back);
  look(p);
  EXPECT_EQ(p.reserved(), 0u);
  space::handle const again = get(p, 130 * mib);
  EXPECT_FALSE(block(again).is(space::unproven)) << "nearly the same size came back";
  give(p, again);
  look(p);
  EXPECT_EQ(p.reserved(), 130 * mib);
  pass(p, 2 * second);
  EXPECT_EQ(p.reserved(), 0u) << "it has aged";
}

TEST_F(returns, a_size_that_came_back_stays_whichever_of_its_blocks_is_freed) {
  pool& p = with();
  space::handle const first = get(p, 128 * mib), second_one = get(p, 128 * mib);
  give_unproven(p, first);
  look(p);
  space::handle const again = get(p, 128 * mib);
  give_unproven(p, second_one);
  give(p, again);
  look(p);
  EXPECT_EQ(p.reserved(), 256 * mib);
}

TEST_F(returns, a_free_in_stream_order_gives_nothing_back_by_itself) {
  pool& p = with();
  space::handle const h = get(p, 128 * mib, 1);
  free_duties = 0;  // the first slow request of a pool asks for a look
  block(h).unmark(space::unproven);
  give(p, h, 1);
  EXPECT_EQ(free_duties.load() & gives_back, 0);
  look(p);
  EXPECT_EQ(p.reserved(), 128 * mib);
}

TEST_F(returns, what_is_to_be_kept_stays) {
  pool& p = with({.initial_pool_size = 64 * mib, .kept_idle = 32 * mib});
  p.prepare();
  space::handle const a = get(p, 48 * mib), b = get(p, 48 * mib), c = get(p, 32 * mib);
  look(p);
  for (space::handle const h : {a, b, c}) give(p, h);
  pass(p, 2 * second);
  EXPECT_EQ(p.reserved(), 80 * mib) << "any segments, as long as the initial size stays reserved";
}

TEST_F(returns, blocks_that_take_turns_do_not_hold_every_segment) {
  pool& p = with({.growth = 2 * mib});
  look(p);
  std::vector<space::handle> all;
  for (int i = 0; i < 100; ++i) all.push_back(get(p, 2 * mib));
  for (space::handle const h : all) give(p, h);
  for (int i = 0; i < 60; ++i) {
    for (int k = 0; k < 7; ++k) give(p, get(p, 2 * mib));
    look(p, second / 8);
  }
  EXPECT_LE(p.reserved(), 40 * mib) << "one is in use at a time";
}

// Memory by pages has no empty segments: what stayed idle goes, wherever it lies.
struct page_returns : returns {
  pool& over_pages(pool_options o = {}) {
    auto& pages = below<upstream::vmm>(here->home, 0u, 0u);
    o.release_after = second;
    o.earned_from = 64 * mib;
    return make<pool>(o, pages);
  }
};

TEST_F(page_returns, what_stayed_idle_goes_and_what_was_used_in_between_stays) {
  pool& p = over_pages();
  std::vector<space::handle> all;
  for (int i = 0; i < 100; ++i) all.push_back(get(p, 64 * mib));
  for (space::handle const h : all) give(p, h);
  pass(p, second / 2);
  EXPECT_EQ(p.reserved(), 6400 * mib) << "not yet";
  for (int round = 0; round < 12; ++round) {
    space::handle const a = get(p, 300 * mib), b = get(p, 200 * mib);
    give(p, a);
    give(p, b);
    pass(p, second / 4);
  }
  EXPECT_LE(p.reserved(), 600 * mib);
  EXPECT_GE(p.reserved(), 500 * mib);
  pass(p, 3 * second);
  EXPECT_EQ(p.reserved(), 0u);
}

TEST_F(page_returns, beside_other_work_too_as_nothing_waits_for_it) {
  pool& p = over_pages();
  space::handle const working = get(p, 2 * mib, 1);
  give(p, get(p, 128 * mib));
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  driver.manual_events(true);
  give(p, working, 1);
  pass(p, 2 * second);
  EXPECT_LT(p.reserved(), 128 * mib);
}

TEST_F(page_returns, what_is_to_be_kept_stays) {
  pool& p = over_pages({.initial_pool_size = 64 * mib, .kept_idle = 32 * mib});
  p.prepare();
  space::handle const a = get(p, 48 * mib), b = get(p, 48 * mib);
  look(p);
  for (space::handle const h : {a, b}) give(p, h);
  pass(p, 3 * second);
  EXPECT_EQ(p.reserved(), 64 * mib);
}

TEST_F(page_returns, work_that_runs_keeps_its_memory) {
  pool& p = over_pages();
  driver.manual_events(true);
  give(p, get(p, 128 * mib));
  pass(p, 3 * second);
  EXPECT_EQ(p.reserved(), 128 * mib);
}

TEST_F(returns, never_is_never) {
  pool& p = make_pool();
  give(p, get(p, 128 * mib));
  look(p);
  pass(p, 4 * second);
  EXPECT_EQ(p.reserved(), 128 * mib);
}

}  // namespace
}  // namespace gpumem::resource
