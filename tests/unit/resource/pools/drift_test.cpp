// Programs whose sizes drift, so that no request fits where another one was: a pool has no more than a few
// times what they need at once, natively never more than that. Where a configuration says what a pool keeps,
// that holds. Over the scripted driver, whose GPU is done at once unless a test says otherwise.
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "core/resource/pools/arena.hpp"
#include "core/upstream/managed.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct drift : resource_fixture {
  std::uint64_t most = 0;  // that the driver ever gave, beyond `before`
  std::uint64_t before = 0;

  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    driver.set_capacity(100 * gib);
  }
  space::handle take(resource& p, std::uint64_t bytes, stream_order::slot s = 0) {
    space::handle const h = get(p, bytes, s);
    most = std::max(most, driver.used() - before);
    return h;
  }
  // A vector that grows by a step; it needs two of its last size at most.
  void grow(resource& p, std::uint64_t step, int steps, stream_order::slot s = 0) {
    space::handle last = take(p, step, s);
    for (int n = 2; n <= steps; ++n) {
      space::handle const h = take(p, static_cast<std::uint64_t>(n) * step, s);
      give(p, last, s);
      last = h;
    }
    give(p, last, s);
  }
};

TEST_F(drift, a_vector_that_grows_leaves_no_trail) {
  grow(make_pool(), 2 * mib, 500);
  EXPECT_LE(most, 3 * 2 * gib);
  EXPECT_LE(driver.calls("cuMemAlloc_v2"), 250) << "what goes comes back as one";
}

// The first call of a process that gives memory back beside work takes a driver 10 ms, and each 0.6 ms a GiB:
// it goes all the same, as natively each of these requests would give as much back.
TEST_F(drift, nor_where_the_driver_takes_its_time_to_take_memory_back) {
  bool first = true;
  driver.at_free([&] {
    std::this_thread::sleep_for(std::chrono::microseconds(std::exchange(first, false) ? 10'000 : 100));
  });
  grow(make_pool(), 2 * mib, 500);
  EXPECT_LE(most, 4 * 2 * gib);
}

// What a part has beyond its threshold goes to the superblocks, and from there to the driver.
TEST_F(drift, nor_in_a_part_of_an_arena) {
  for (stream_order::slot const s : {stream_order::slot{0}, stream_order::slot{1}}) {
    most = 0;
    before = driver.used();
    auto& superblocks = make<suballocator>(suballocator_options{}, here->cuda, "superblocks");
    grow(make<arena>(arena_options{}, superblocks), 2 * mib, 500, s);
    EXPECT_LE(most, 5 * 2 * gib);
  }
}

// Whose frees wait for kernels: nothing goes beside one, which may be waiting for this very thread.
TEST_F(drift, nor_over_host_and_managed_memory_while_the_gpu_has_nothing_to_do) {
  auto& host = below<upstream::pinned_host>(here->home, std::size_t{0}, 0u);
  auto& managed = below<upstream::managed>(here->home, std::size_t{0});
  for (auto const& [from, by] :
       {std::pair<source&, char const*>{host, "cuMemFreeHost"}, {managed, "cuMemFree_v2"}}) {
    most = 0;
    before = driver.used();
    driver.manual_events(false);
    pool& p = make<pool>(pool_options{}, from);
    grow(p, 2 * mib, 500);
    EXPECT_LE(most, 4 * 2 * gib) << by;
    driver.manual_events(true);
    int const calls = driver.calls(by);
    grow(p, 3 * mib, 60);
    EXPECT_EQ(driver.calls(by), calls);
    driver.finish_all();
  }
}

TEST_F(drift, nor_one_of_a_stream) {
  grow(make_pool(), 2 * mib, 500, 1);
  EXPECT_LE(most, 4 * 2 * gib);
}

// What a stream freed serves it again in order: it need not wait for the GPU, which here does nothing.
TEST_F(drift, nor_one_of_a_stream_that_is_far_ahead_of_the_gpu) {
  driver.manual_events(true);
  grow(make_pool({.sparing_beyond = 60 * gib}), 2 * mib, 500, 1);
  EXPECT_LE(most, 5 * 2 * gib);
  EXPECT_LE(driver.calls("cuMemAlloc_v2"), 100);
}

TEST_F(drift, nor_does_what_a_stream_takes_ahead_go_beyond_a_bound) {
  driver.manual_events(true);
  pool& p = make_pool({.sparing_beyond = 3584 * mib});
  space::handle last = take(p, 400 * mib, 1);
  for (std::uint64_t n = 401; p.reserved() + n * mib <= 3584 * mib; ++n) {
    space::handle const h = take(p, n * mib, 1);
    EXPECT_LE(p.reserved(), 3584 * mib);
    give(p, last, 1);
    last = h;
  }
}

TEST_F(drift, batches_of_any_length_take_a_few_times_the_longest) {
  pool& p = make_pool();
  std::mt19937 random(3);
  for (int batch = 0; batch < 500; ++batch) {
    std::uint64_t const length = 1 + random() % 200;
    std::vector<space::handle> blocks;
    for (std::uint64_t width : {1, 4, 3, 2, 8, 1}) blocks.push_back(take(p, length * width * mib / 2));
    for (space::handle const h : blocks) give(p, h);
  }
  EXPECT_LE(most, 4 * 1900 * mib);
}

TEST_F(drift, what_a_configuration_keeps_is_kept) {
  for (pool_options const& o :
       {pool_options{.initial_pool_size = 64 * mib}, pool_options{.growth = 2 * mib}}) {
    most = 0;
    before = driver.used();
    grow(make_pool(o), 2 * mib, 200);
    EXPECT_GT(most, 4 * 800 * mib);
  }
}

// Nothing may be waited for there, and cuMemFree is forbidden to it.
TEST_F(drift, nothing_goes_beside_a_capture) {
  pool& p = make_pool();
  here->epochs.capture_begins({tests::stream(1)});
  grow(p, 2 * mib, 200);
  here->epochs.capture_ended(tests::stream(1));
  EXPECT_EQ(driver.frees() + driver.calls("cuMemFreeAsync"), 0);
}

TEST_F(drift, what_the_gpu_still_uses_stays) {
  driver.manual_events(true);
  pool& p = make_pool();
  grow(p, 2 * mib, 60);
  EXPECT_EQ(driver.frees() + driver.calls("cuMemFreeAsync"), 0);
  driver.finish_all();
  driver.manual_events(false);
  grow(p, 3 * mib, 400);
  EXPECT_GT(driver.frees() + driver.calls("cuMemFreeAsync"), 0);
}

}  // namespace
}  // namespace gpumem::resource
