// The ladder of a suballocator, rung by rung, each by its own counter, and what must not happen on the way.
#include <chrono>
#include <thread>

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

using namespace std::chrono_literals;
using ladder = resource_fixture;

// All work of the GPU is done while a request waits for it.
std::jthread finishes_soon(tests::fake_driver& driver) {
  return std::jthread([&driver] {
    std::this_thread::sleep_for(20ms);
    driver.finish_all();
  });
}

TEST_F(ladder, small_blocks_stay_in_the_magazine_where_large_ones_are_enough) {
  pool& p = make_pool();
  space::handle const small = get(p, 4 * kib), large = get(p, 1500 * kib);
  give(p, small);
  give(p, large);
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  get(p, 1600 * kib);
  EXPECT_EQ(driver.allocations(), 1u);
  EXPECT_EQ(block(small).now, space::state::cached);
}

// As a thread with sizes of all kinds does: the large block that fits was freed a moment ago.
TEST_F(ladder, an_event_comes_before_this_threads_blocks_of_a_class_leave_its_magazine) {
  driver.manual_events(false);
  pool& p = make_pool();
  space::handle const small = get(p, 4 * kib), middle = get(p, 768 * kib), large = get(p, 8 * mib);
  give(p, small);
  give(p, middle);
  give(p, large);
  auto const before = driver.allocations();
  get(p, 7 * mib);
  EXPECT_RUNG(rung_reaped, 1);
  EXPECT_EQ(driver.allocations(), before);
  EXPECT_EQ(block(small).now, space::state::cached);
  EXPECT_EQ(block(middle).now, space::state::cached);
}

TEST_F(ladder, blocks_of_a_class_leave_their_magazine_before_the_pool_grows) {
  driver.manual_events(false);
  pool& p = make_pool({.initial_pool_size = 8 * mib});
  p.prepare();
  std::vector<space::handle> all;
  for (int i = 0; i < 16; ++i) all.push_back(get(p, 512 * kib));
  for (auto const h : all) give(p, h);
  auto const before = driver.allocations();
  get(p, 8 * mib);
  EXPECT_EQ(driver.allocations(), before);
}

TEST_F(ladder, what_lies_idle_is_settled_before_other_threads_magazines_are_emptied) {
  driver.manual_events(false);
  pool& p = make_pool();
  give(p, get(p, 4 * kib));  // this thread has a magazine, and does not take theirs over
  space::handle const large = get(p, 8 * mib, 1), other = get(p, 64 * kib);
  space::handle theirs = space::none;
  std::jthread([&] {
    theirs = get(p, 64 * kib);
    give(p, theirs);
  }).join();
  give(p, other);
  give(p, large, 1);  // the first of its size: not into the stream's magazine
  auto const before = driver.allocations();
  get(p, 8 * mib);
  EXPECT_RUNG(rung_reaped, 1);
  EXPECT_EQ(driver.allocations(), before);
  EXPECT_EQ(block(theirs).now, space::state::cached);
}

TEST_F(ladder, grows_then_carves) {
  pool& p = make_pool();
  space::handle const a = get(p, 1000);
  EXPECT_RUNG(rung_grown, 1);
  space::handle const b = get(p, 1000);
  EXPECT_RUNG(rung_carved, 1);
  EXPECT_EQ(driver.allocations(), 1u);
  EXPECT_EQ(block(a).bytes(), 1024u);
  EXPECT_EQ(block(a).begin() % 512, 0u);
  EXPECT_NE(block(a).begin(), block(b).begin());
  EXPECT_EQ(block(a).now.load(), space::state::live);
  EXPECT_EQ(here->where.map.find(block(a).begin()), a);
}

TEST_F(ladder, a_hit_is_the_same_block_and_no_driver_call) {
  pool& p = make_pool();
  space::handle const a = get(p, 1000);
  give(p, a);
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  int const calls = driver.calls_in_all();
  EXPECT_EQ(get(p, 900), a);
  EXPECT_EQ(driver.calls_in_all(), calls);
  EXPECT_RUNG(rung_cached, 1);
  give(p, a);
  EXPECT_EQ(driver.calls_in_all(), calls);
}

TEST_F(ladder, a_block_freed_without_a_stream_is_not_served_before_it_is_done) {
  pool& p = make_pool();
  space::handle const a = get(p, 2 * mib);
  give(p, a);
  EXPECT_NE(block(get(p, 2 * mib)).begin(), block(a).begin());
  EXPECT_NE(block(get(p, 2 * mib, 1)).begin(), block(a).begin()) << "nor to a stream";
  EXPECT_EQ(p.measure().pending, 2 * mib);
}

TEST_F(ladder, a_block_freed_on_a_stream_serves_that_stream_at_once_and_no_other) {
  pool& p = make_pool();
  space::handle const a = get(p, 2 * mib, 1);
  give(p, a, 1);
  EXPECT_NE(block(get(p, 2 * mib)).begin(), block(a).begin());
  // The search for the caller without a stream moved it into the index; it is still the stream's.
  space::handle const b = get(p, 2 * mib, 1);
  EXPECT_EQ(block(b).begin(), block(a).begin());
  give(p, b, 1);
  EXPECT_EQ(get(p, 2 * mib, 1), b);
  EXPECT_RUNG(rung_same_stream, 1);
  give(p, b, 1);
  EXPECT_NE(block(get(p, 2 * mib, 2)).begin(), block(b).begin());
}

TEST_F(ladder, collects_finished_epochs_before_it_grows) {
  pool& p = make_pool();
  space::handle const a = get(p, 2 * mib);
  give(p, a);
  driver.manual_events(false);
  EXPECT_EQ(block(get(p, 2 * mib)).begin(), block(a).begin());
  EXPECT_RUNG(rung_reaped, 1);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), 1);
}

TEST_F(ladder, many_frees_of_one_size_are_settled_by_one_event) {
  driver.manual_events(false);
  pool& p = make_pool({.initial_pool_size = 64 * mib});
  p.prepare();
  std::vector<space::handle> all;
  for (int i = 0; i < 200; ++i) all.push_back(get(p, 4096));
  for (auto const h : all) give(p, h);
  for (int i = 0; i < 200; ++i) get(p, 4096);
  EXPECT_EQ(driver.calls("cuCtxRecordEvent"), 1);
  EXPECT_RUNG(rung_reaped, 1);
  EXPECT_RUNG(rung_cached, 199);
}

TEST_F(ladder, a_stream_is_made_to_wait_near_the_end_of_memory) {
  pool& p = make_pool({.sparing_beyond = 3 * mib});
  space::handle const a = get(p, 2 * mib);
  give(p, a);
  space::handle const b = get(p, 2 * mib, 1);
  EXPECT_EQ(block(b).begin(), block(a).begin());
  EXPECT_RUNG(rung_device_wait, 1);
  auto const waits = driver.stream_waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].first, tests::stream(1));
}

TEST_F(ladder, a_stream_that_cannot_be_made_to_wait_gets_other_memory) {
  pool& p = make_pool({.sparing_beyond = 3 * mib});
  space::handle const a = get(p, 2 * mib);
  give(p, a);
  driver.fail("cuStreamWaitEvent", CUDA_ERROR_INVALID_HANDLE, 1000);
  std::jthread const finisher = finishes_soon(driver);
  get(p, 2 * mib, 1);
  EXPECT_RUNG(rung_device_wait, 0);
  EXPECT_RUNG(rung_waited, 1);
}

TEST_F(ladder, waits_for_the_oldest_epoch_rather_than_take_the_last_memory) {
  pool& p = make_pool({.sparing_beyond = 3 * mib});
  space::handle const a = get(p, 2 * mib);
  give(p, a);
  std::jthread const finisher = finishes_soon(driver);
  EXPECT_EQ(block(get(p, 2 * mib)).begin(), block(a).begin());
  EXPECT_RUNG(rung_waited, 1);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), 1);
}

TEST_F(ladder, out_of_memory_waits_for_everything_that_was_freed) {
  driver.set_capacity(2 * mib);
  pool& p = make_pool();
  space::handle const a = get(p, 2 * mib);
  give(p, a);
  std::jthread const finisher = finishes_soon(driver);
  EXPECT_EQ(block(get(p, 2 * mib)).begin(), block(a).begin());
  EXPECT_RUNG(rung_drained, 1);
}

TEST_F(ladder, out_of_memory_gives_empty_segments_back) {
  driver.manual_events(false);
  driver.set_capacity(32 * mib);
  pool& p = make_pool();
  space::handle const a = get(p, 15 * mib), b = get(p, 16 * mib);
  give(p, a);
  give(p, b);
  // Two segments of 16 MiB; 32 MiB in one piece needs both back.
  EXPECT_EQ(block(get(p, 32 * mib)).bytes(), 32 * mib);
  EXPECT_RUNG(rung_trimmed, 1);
  EXPECT_EQ(driver.used(), 32 * mib);
}

TEST_F(ladder, during_a_capture_frees_wait_and_growth_goes_on) {
  pool& p = make_pool();
  space::handle const a = get(p, 2 * mib);
  here->epochs.capture_begins({tests::stream(1)});
  driver.capture(tests::stream(1));
  give(p, a);
  space::handle const b = get(p, 2 * mib);
  EXPECT_NE(block(a).begin(), block(b).begin());
  give(p, b, 2);
  EXPECT_EQ(get(p, 2 * mib, 2), b);
  EXPECT_EQ(driver.calls("cuCtxRecordEvent"), 0);
  driver.end_capture(tests::stream(1));
  here->epochs.capture_ended(tests::stream(1));
}

TEST_F(ladder, memory_of_a_destroyed_stream_serves_others_when_done) {
  pool& p = make_pool();
  space::handle const a = get(p, 2 * mib, 1);
  give(p, a, 1);
  p.stream_gone(1);
  // The slot's next stream must not take it before it is done.
  EXPECT_NE(block(get(p, 2 * mib, 1)).begin(), block(a).begin());
  driver.finish_all();
  driver.manual_events(false);
  EXPECT_EQ(block(get(p, 2 * mib)).begin(), block(a).begin());
}

TEST_F(ladder, forgets_all_without_a_driver_call) {
  pool& p = make_pool();
  space::handle const a = get(p, 1 * mib);
  give(p, get(p, 1 * mib));
  std::uint64_t const at = block(a).begin();
  int const calls = driver.calls_in_all();
  here->epochs.abandon();
  p.forget();
  EXPECT_EQ(driver.calls_in_all(), calls);
  EXPECT_EQ(here->where.map.find(at), space::none);
  EXPECT_EQ(here->where.segments.containing(at).in, nullptr);
  EXPECT_EQ(p.measure().idle, 0u);
}

}  // namespace
}  // namespace gpumem::resource
