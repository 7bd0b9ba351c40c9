// How much a pool takes when it grows: for small requests 1/32 of what it has, so that there are few
// growths; for one that is a good part of the whole just its own size, so that little is reserved for nobody.
// And how long it watches for freed memory first: about as long as a growth takes.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "core/upstream/vmm.hpp"
#include "tests/unit/own_clock/own_clock.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct growth : resource_fixture {
  // By how much the pool grows for a request.
  std::uint64_t step(pool& p, std::uint64_t bytes) {
    std::uint64_t const before = p.reserved();
    get(p, bytes);
    return p.reserved() - before;
  }
  // 32 MiB that are idle, beside 32 MiB that are not, and a request that they cannot serve.
  void ask_for_more_than_a_hole(pool& p) {
    space::handle const hole = get(p, 32 * mib);
    get(p, 32 * mib);
    give(p, hole);
    get(p, 48 * mib);
  }
};

TEST_F(growth, small_requests_share_a_part_of_what_there_is) {
  pool& p = make_pool();
  get(p, 256 * mib);
  EXPECT_EQ(step(p, 4096), 8 * mib);
  EXPECT_EQ(step(p, 4096), 0u);
}

TEST_F(growth, a_capture_makes_larger_steps) {
  pool& p = make_pool();
  get(p, 256 * mib);
  here->epochs.capture_begins({tests::stream(1)});
  EXPECT_EQ(step(p, 4096), 16 * mib);
  here->epochs.capture_ended(tests::stream(1));
}

TEST_F(growth, a_refusal_waits_for_no_kernel_where_nothing_would_come_of_it) {
  driver.manual_events(true);  // a kernel runs that waits for the host
  driver.set_capacity(100 * mib);
  pool& p = make_pool();
  get(p, 64 * mib);
  EXPECT_THROW(get(p, 64 * mib), driver::allocation_failed);
  EXPECT_EQ(driver.calls("cuCtxRecordEvent"), 0);
}

TEST_F(growth, a_good_part_of_the_whole_is_not_rounded_up_to_more) {
  pool& p = make_pool();
  get(p, 256 * mib);
  EXPECT_EQ(step(p, 4 * mib), 4 * mib);
  EXPECT_EQ(step(p, 5 * mib), 6 * mib) << "but to pages of the driver";
  EXPECT_EQ(step(p, 4 * mib), 10 * mib) << "less than a 64th now";
}

TEST_F(growth, empty_segments_go_before_more_is_taken_where_memory_is_spared) {
  driver.manual_events(false);
  for (std::uint64_t const sparing_beyond : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    pool& p = make_pool({.sparing_beyond = sparing_beyond});
    ask_for_more_than_a_hole(p);
    EXPECT_EQ(p.reserved(), (sparing_beyond == 0 ? 80 : 112) * mib);
  }
}

TEST_F(growth, idle_pieces_go_before_more_is_taken_where_memory_is_spared) {
  driver.manual_events(false);
  for (std::uint64_t const sparing_beyond : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    auto& pages = below<upstream::vmm>(here->home, 0u, 0u);
    pool& p = make<pool>(pool_options{.sparing_beyond = sparing_beyond}, pages);
    ask_for_more_than_a_hole(p);
    EXPECT_EQ(p.reserved(), (sparing_beyond == 0 ? 80 : 112) * mib);
  }
}

TEST_F(growth, pages_that_are_there_serve_where_the_same_number_would_be_taken) {
  driver.manual_events(false);
  stats::set(stats::gauges(0).total, 64 * gib);
  for (std::uint64_t const maximum : {64 * mib, 65 * mib}) {  // the half of it
    auto& pages = below<upstream::vmm>(here->home, 0u, 0u);
    pool& p = make<pool>(pool_options{.maximum_pool_size = maximum, .sparing_beyond = 0}, pages);
    int const before = driver.calls("cuMemCreate");
    give(p, get(p, 32 * mib));
    get(p, 31 * mib);
    EXPECT_EQ(driver.calls("cuMemCreate") - before == 1, maximum > 64 * mib);
    EXPECT_EQ(p.reserved(), 32 * mib);
  }
  stats::set(stats::gauges(0).total, 0);
}

// To get just as many pages is what most of the time goes to.
TEST_F(growth, of_many_an_eighth_of_a_piece_may_be_left_and_a_third_beside_a_block_of_a_stream) {
  driver.manual_events(false);
  stats::set(stats::gauges(0).total, 64 * gib);
  struct {
    bool many;
    stream_order::slot stream;
    std::uint64_t bytes;
    bool serves;
  } const cases[] = {{true, 0, 36 * mib, true},
                     {true, 0, 32 * mib, false},
                     {true, 1, 30 * mib, true},
                     {true, 1, 28 * mib, false},
                     {false, 0, 36 * mib, false}};
  for (auto const& each : cases) {
    auto& pages = below<upstream::vmm>(here->home, 0u, 0u);
    pool& p = make<pool>(pool_options{.sparing_beyond = 0}, pages);
    if (each.many) share(p);
    give(p, get(p, 40 * mib, each.stream), each.stream);
    here->epochs.collect(here->epochs.open());
    int const before = driver.calls("cuMemCreate");
    get(p, each.bytes, each.stream);
    EXPECT_EQ(driver.calls("cuMemCreate") == before, each.serves) << (each.bytes >> 20) << " MiB";
    EXPECT_EQ(p.reserved() == 40 * mib, each.serves) << "in its place, not beside it";
  }
  stats::set(stats::gauges(0).total, 0);
}

// How many calls of a source were under way at once, at most. Each takes a while, as the driver's do: until a
// second one is there, or for so long.
struct slow_calls {
  std::chrono::microseconds patience{200};
  std::atomic<int> under_way{0}, most{0};
};
struct slow_call {
  slow_calls& of;
  explicit slow_call(slow_calls& counted) : of(counted) {
    int const now = ++of.under_way;
    for (int most = of.most; now > most && !of.most.compare_exchange_weak(most, now);) {
    }
    auto const until = std::chrono::steady_clock::now() + of.patience;
    while (of.most == 1 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ~slow_call() { --of.under_way; }
};
// Of threads that may grow side by side a second one comes sooner or later, however busy the machine is.
constexpr std::chrono::seconds sooner_or_later{20};

struct slow_pages : source, page_source {
  explicit slow_pages(upstream::vmm& pages) : real(pages) {}
  page_source* pages() noexcept override { return this; }
  std::uint64_t page() const noexcept override { return real.page(); }
  extent claim(std::uint64_t bytes) override { return real.claim(bytes); }
  std::uint64_t map(std::uint64_t address, std::span<std::uint64_t const> pieces, std::uint32_t life,
                    CUresult& code) noexcept override {
    slow_call const counted(calls);
    return real.map(address, pieces, life, code);
  }
  bool lacks(std::uint64_t bytes) noexcept override { return real.lacks(bytes); }
  bool unmap(std::uint64_t address, std::uint64_t bytes, std::uint32_t life) noexcept override {
    slow_call const counted(calls);
    return real.unmap(address, bytes, life);
  }
  extent reserve(allocation_request const& request) override { return real.reserve(request); }
  void release(extent const& memory, release_order const& order) noexcept override {
    real.release(memory, order);
  }
  void lost(extent const& memory) noexcept override { real.lost(memory); }

  upstream::vmm& real;
  slow_calls calls;
};

// The same of segments.
struct slow_segments : source {
  explicit slow_segments(source& segments) : real(segments) {}
  extent reserve(allocation_request const& request) override {
    slow_call const counted(calls);
    return real.reserve(request);
  }
  void release(extent const& memory, release_order const& order) noexcept override {
    slow_call const counted(calls);
    real.release(memory, order);
  }
  void lost(extent const& memory) noexcept override { real.lost(memory); }

  source& real;
  slow_calls calls;
};

// Threads that take blocks of ever other sizes and give them back.
void come_and_go(growth& test, pool& p) {
  std::vector<std::jthread> threads;
  for (unsigned own = 0; own < 4; ++own) {
    threads.emplace_back([&, own] {
      tests::in_context const current(tests::first_context);
      std::mt19937_64 random(own);
      for (int i = 0; i < 30; ++i) test.give(p, test.get(p, (2 + 2 * (random() % 32)) * mib));
    });
  }
}

TEST_F(growth, where_memory_is_spared_segments_come_and_go_for_one_thread_at_a_time) {
  driver.manual_events(false);
  for (bool const spares : {true, false}) {
    auto& segments = below<slow_segments>(here->cuda);
    if (!spares) segments.calls.patience = sooner_or_later;
    come_and_go(*this, make<pool>(pool_options{.sparing_beyond = spares ? 0 : ~std::uint64_t{0}}, segments));
    if (spares)
      EXPECT_EQ(segments.calls.most, 1);
    else
      EXPECT_GT(segments.calls.most, 1) << "of these threads";
  }
}

// Else what threads take is there before what they give back for it has gone.
TEST_F(growth, where_memory_is_spared_pages_come_and_go_for_one_thread_at_a_time) {
  driver.manual_events(false);
  for (bool const spares : {true, false}) {
    auto& pages = below<slow_pages>(below<upstream::vmm>(here->home, 0u, 0u));
    if (!spares) pages.calls.patience = sooner_or_later;
    pool& p = make<pool>(pool_options{.sparing_beyond = spares ? 0 : ~std::uint64_t{0}}, pages);
    come_and_go(*this, p);
    if (spares)
      EXPECT_EQ(pages.calls.most, 1);
    else
      EXPECT_GT(pages.calls.most, 1) << "of these threads";
  }
}

// Blocks of other sizes each time on a device that is full: without a GPU's work, as the benchmark `refused`.
TEST_F(growth, on_a_full_device_ever_other_sizes_need_fewer_bytes_of_the_driver) {
  driver.manual_events(false);
  std::array<std::uint64_t, 2> taken{}, refused{};
  for (bool const takes_no_more : {true, false}) {
    driver.set_capacity(driver.used() + 16 * gib);
    pool& p = make_pool({.sparing_beyond = 12 * gib, .takes_no_more = takes_no_more});
    std::uint64_t const before = stats::local().nodes[0].bytes_in;
    std::mt19937_64 random(7);
    std::vector<space::handle> live;
    for (int i = 0; i < 2000;) {
      std::uint64_t const bytes = 1 + random() % (512 * mib);
      for (bool served = false; !served && i < 2000; ++i) {
        try {
          live.push_back(get(p, bytes));
          served = true;
        } catch (driver::allocation_failed const& failed) {
          EXPECT_EQ(failed.code(), CUDA_ERROR_OUT_OF_MEMORY);
          ++refused[takes_no_more];
          std::swap(live[random() % live.size()], live.back());
          give(p, live.back());
          live.pop_back();
        }
      }
    }
    taken[takes_no_more] = stats::local().nodes[0].bytes_in - before;
    for (space::handle const h : live) give(p, h);
    p.give_back(give_back_scope::all);
  }
  EXPECT_LT(taken[0], taken[1] / 4 * 3);
  EXPECT_LT(refused[0], refused[1] + 20) << "as many are served";
}

TEST_F(growth, a_smaller_request_gets_pieces_of_its_own_where_memory_is_spared) {
  driver.manual_events(false);
  auto& pages = below<upstream::vmm>(here->home, 0u, 0u);
  pool& p = make<pool>(pool_options{.sparing_beyond = 0}, pages);
  give(p, get(p, 32 * mib));
  space::handle const small = get(p, 6 * mib);
  EXPECT_EQ(p.reserved(), 6 * mib) << "not a part of 32 MiB that can only go whole";
  EXPECT_EQ(block(small).begin() % (2 * mib), 0u);
  space::handle const odd = get(p, 1 * mib);
  space::handle const whole = get(p, 4 * mib);
  EXPECT_EQ(block(whole).begin() % (2 * mib), 0u) << "not behind 1 MiB";
  give(p, whole);
  give(p, odd);
  give(p, small);
  p.give_back(give_back_scope::all);
  EXPECT_EQ(p.reserved(), 0u);
}

TEST_F(growth, memory_that_is_free_in_less_time_than_a_growth_takes_is_waited_for) {
  for (int unfinished : {0, 1}) {
    pool& p = make_pool({.growth = 2 * mib});
    // The work ends while the request looks for its end: at the third look, the first of the wait; two before
    // do not see it. Nothing here takes time, and a machine that stops this thread cannot make the wait too
    // short.
    int looks = 0;
    driver.at_record([&] { looks = 0; });
    driver.at_query([&] {
      if (++looks == 3 && unfinished == 0) driver.finish_all();
    });
    for (int i = 0; i < 12; ++i) {  // fewer than make a row (ahead_test)
      space::handle const freed = get(p, 2 * mib);
      get(p, 2 * mib);  // a growth: from it on a wait may take as long as one
      give(p, freed);
      std::uint64_t const before = p.reserved();
      space::handle const h = get(p, 2 * mib);
      EXPECT_EQ(p.reserved() > before, unfinished == 1);
      EXPECT_GE(looks, 3);
      give(p, h);
      driver.finish_all();
      here->epochs.synchronize_done(here->epochs.synchronize_begins());
    }
  }
}

TEST_F(growth, of_many_small_blocks_stay_out_of_what_was_made_for_large_ones) {
  driver.manual_events(false);
  for (bool const many : {true, false}) {
    pool& p = make_pool();
    share(p, many ? 8 : 3);
    give(p, get(p, 96 * mib));
    get(p, 3 * mib);  // no room in what came for the 4 KiB
    EXPECT_EQ(p.reserved() > 98 * mib, many);
    std::uint64_t const before = p.reserved();
    get(p, 94 * mib);
    EXPECT_EQ(p.reserved() == before, many) << "of the 96 MiB nothing was cut";
  }
}

// Two segments, a half of each idle, and a request for more than a half. `asked` is called with the number of
// each event that it records. By how much the pool grew.
std::uint64_t ask_for_more_than_a_half(growth& test, pool& p, space::handle& in_use,
                                       std::function<void(int)> const& asked) {
  space::handle const one = test.get(p, 64 * mib), other = test.get(p, 64 * mib);
  test.give(p, one);
  in_use = test.get(p, 32 * mib);
  test.give(p, other);
  test.get(p, 33 * mib);
  std::uint64_t const before = p.reserved();
  int records = 0;
  test.driver.at_record([&] { asked(++records); });
  test.get(p, 48 * mib);
  test.driver.at_record(nullptr);
  return p.reserved() - before;
}

TEST_F(growth, where_memory_is_spared_others_frees_are_waited_for_before_there_is_more_than_ever) {
  driver.manual_events(false);
  space::handle in_use = space::none;
  int of_few = 0;
  pool& few = make_pool({.sparing_beyond = 0});
  EXPECT_EQ(ask_for_more_than_a_half(*this, few, in_use, [&](int records) { of_few = records; }), 48 * mib);
  tests::own_clock const clock(1'000);  // a machine that stops this thread would end the wait
  pool& many = make_pool({.sparing_beyond = 0});
  share(many);
  std::uint64_t const grown = ask_for_more_than_a_half(*this, many, in_use, [&](int records) {
    if (records != of_few + 3) return;
    std::jthread([&] {
      tests::in_context const current(tests::first_context);
      give(many, in_use);
    });
  });
  EXPECT_EQ(grown, 0u);
}

// Half pages that are idle, as many bytes as are asked for. Each of the request's first two events lets
// another thread free a small block, so that there is a third one, in its turn to grow; then a large block.
TEST_F(growth, where_memory_is_spared_others_frees_are_waited_for_over_pages_too) {
  driver.manual_events(false);
  tests::own_clock const clock(1'000);  // as above
  auto& pages = below<upstream::vmm>(here->home, 0u, 0u);
  pool& p = make<pool>(pool_options{.sparing_beyond = 0}, pages);
  share(p);
  space::handle const large = get(p, 32 * mib);
  std::array<space::handle, 68> halves{};
  for (space::handle& each : halves) each = get(p, 1 * mib);
  for (std::size_t i = 4; i < halves.size(); i += 2) give(p, halves[i]);
  std::uint64_t const before = p.reserved();
  int records = 0;
  driver.at_record([&] {
    ++records;
    if (records > 3) return;
    std::jthread([&] {
      tests::in_context const current(tests::first_context);
      give(p, records == 3 ? large : halves[records == 1 ? 0 : 2]);
    });
  });
  get(p, 32 * mib);
  driver.at_record(nullptr);
  EXPECT_GE(records, 3);
  EXPECT_EQ(p.reserved(), before);
}

// Sizes even in the logarithm: small blocks lay in large segments, and kept 1.5 times what was in use.
TEST_F(growth, a_sparing_pool_is_not_held_by_small_blocks_in_large_segments) {
  driver.manual_events(false);
  auto& p = make<pool>(pool_options{.sparing_beyond = 0}, here->cuda);
  std::vector<space::handle> live(48, space::none);
  std::uint64_t random = 7, used = 0, most_used = 0, most_reserved = 0;
  auto const next = [&](std::uint64_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % below;
  };
  for (int i = 0; i < 20'000; ++i) {
    space::handle& chosen = live[next(live.size())];
    if (chosen != space::none) {
      used -= block(chosen).bytes();
      give(p, std::exchange(chosen, space::none));
      continue;
    }
    std::uint64_t const power = std::uint64_t{512} << next(16);
    chosen = get(p, power + next(power));
    used += block(chosen).bytes();
    most_used = std::max(most_used, used);
    most_reserved = std::max(most_reserved, p.reserved());
  }
  EXPECT_LE(most_reserved, most_used + most_used / 4);
  for (space::handle const h : live)
    if (h != space::none) give(p, h);
}

}  // namespace
}  // namespace gpumem::resource
