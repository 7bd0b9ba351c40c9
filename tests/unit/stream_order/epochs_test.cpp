// When a freed block may serve again: epochs, events, synchronisations, and every way they can fail.
#include <chrono>
#include <thread>
#include <utility>

#include "tests/unit/stream_order/fixture.hpp"

namespace gpumem::stream_order {
namespace {

using namespace std::chrono_literals;
using epochs_test = epochs_fixture;

TEST_F(epochs_test, nothing_is_done_before_its_event_is) {
  epoch_id const s = when->open();
  EXPECT_FALSE(when->is_done(s));
  EXPECT_FALSE(when->poll_now());
  EXPECT_EQ(records(), 0);
  EXPECT_FALSE(when->collect(when->open()));
  EXPECT_EQ(records(), 1);
  EXPECT_FALSE(when->is_done(s));
  EXPECT_FALSE(when->poll_now());
  driver.finish_all();
  EXPECT_FALSE(when->is_done(s)) << "nobody asked the driver yet";
  EXPECT_TRUE(when->poll_now());
  EXPECT_TRUE(when->is_done(s));
  EXPECT_EQ(records(), 1);
}

TEST_F(epochs_test, a_free_after_the_event_is_not_covered_by_it) {
  epoch_id const before = when->open();
  when->collect(when->open());
  epoch_id const after = when->open();
  EXPECT_NE(before, after);
  driver.finish_all();
  when->poll_now();
  EXPECT_TRUE(when->is_done(before));
  EXPECT_FALSE(when->is_done(after));
}

TEST_F(epochs_test, the_epoch_moves_on_before_its_event_is_recorded) {
  epoch_id const before = when->open();
  epoch_id during = before;
  driver.at_record([&] { during = when->open(); });
  when->collect(when->open());
  EXPECT_NE(during, before) << "a free between record and increment would count as covered";
}

TEST_F(epochs_test, a_context_that_may_be_ending_is_made_current_by_nobody) {
  context_visits::end_begins(tests::first_context, context_visits::patience::minute);
  int const before = driver.calls("cuCtxPushCurrent_v2");
  EXPECT_EQ(when->synchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(driver.calls("cuCtxPushCurrent_v2"), before);
  context_visits::end_over(tests::first_context);
  EXPECT_NE(when->synchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

// A magazine that nobody visits keeps epochs for as long as there are numbers.
TEST_F(epochs_test, what_was_freed_long_ago_is_done_however_long_ago) {
  when->synchronize_done(when->synchronize_begins());
  for (epoch_id const ago : {1u, 1u << 16, 1u << 30, (1u << 31) - 1, 1u << 31, (1u << 31) + 1, 3u << 30})
    EXPECT_TRUE(when->is_done(when->last_done() - ago)) << ago;
  EXPECT_FALSE(when->is_done(when->open()));
}

TEST_F(epochs_test, synchronisations_that_fail_close_no_epochs_for_ever) {
  epoch_id const first = when->open();
  for (int i = 0; i < 200'000; ++i) when->synchronize_begins();
  epoch_id const last = when->open();
  EXPECT_FALSE(when->is_done(first));
  EXPECT_FALSE(when->is_done(last));
  when->synchronize_done(when->synchronize_begins());
  EXPECT_TRUE(when->is_done(first));
  EXPECT_FALSE(when->is_done(last)) << "it was open when the synchronisation began";
  when->synchronize_done(when->synchronize_begins());
  EXPECT_TRUE(when->is_done(last));
}

TEST_F(epochs_test, one_event_settles_many_frees_and_events_are_used_again) {
  for (int round = 0; round < 50; ++round) {
    epoch_id const s = when->open();
    for (int free = 0; free < 1000; ++free) ASSERT_EQ(when->open(), s);
    when->collect(when->open());
    driver.finish_all();
    when->poll_now();
    ASSERT_TRUE(when->is_done(s));
  }
  EXPECT_EQ(records(), 50);
  EXPECT_EQ(driver.calls("cuEventCreate"), 1);
}

TEST_F(epochs_test, events_finish_oldest_first) {
  epoch_id const first = when->open();
  when->collect(when->open());
  epoch_id const second = when->open();
  when->collect(when->open());
  driver.finish_oldest();
  EXPECT_TRUE(when->poll_now());
  EXPECT_TRUE(when->is_done(first));
  EXPECT_FALSE(when->is_done(second));
  driver.finish_oldest();
  EXPECT_TRUE(when->poll_now());
  EXPECT_TRUE(when->is_done(second));
}

TEST_F(epochs_test, the_programs_own_synchronisation_settles_what_was_before_it) {
  epoch_id const before = when->open();
  when->collect(when->open());
  epoch_id const second = when->open();
  epoch_id const mark = when->synchronize_begins();
  epoch_id const during = when->open();
  EXPECT_FALSE(when->is_done(before));
  when->synchronize_done(mark);
  EXPECT_TRUE(when->is_done(before));
  EXPECT_TRUE(when->is_done(second));
  EXPECT_FALSE(when->is_done(during));
  int const queries = driver.calls("cuEventQuery");
  when->poll_now();
  EXPECT_EQ(driver.calls("cuEventQuery"), queries) << "the settled event is not asked for";
}

TEST_F(epochs_test, an_older_synchronisation_that_returns_late_takes_nothing_back) {
  epoch_id const early = when->synchronize_begins();
  epoch_id const between = when->open();
  epoch_id const late = when->synchronize_begins();
  when->synchronize_done(late);
  EXPECT_TRUE(when->is_done(between));
  when->synchronize_done(early);
  EXPECT_TRUE(when->is_done(between));
}

TEST_F(epochs_test, never_more_than_64_events_open) {
  for (int i = 0; i < 200; ++i) when->collect(when->open());
  EXPECT_EQ(records(), 64);
  EXPECT_EQ(driver.calls("cuEventCreate"), 64);
  epoch_id const uncovered = when->open();
  std::jthread finisher([&] {
    std::this_thread::sleep_for(20ms);
    driver.finish_all();
    std::this_thread::sleep_for(20ms);
    driver.finish_all();
  });
  EXPECT_TRUE(when->wait(uncovered)) << "room comes when the oldest is done";
  EXPECT_EQ(driver.calls("cuCtxSynchronize"), 0);
}

TEST_F(epochs_test, wait_returns_at_once_for_what_is_done) {
  epoch_id const s = when->open();
  when->synchronize_done(when->synchronize_begins());
  int const calls = driver.calls_in_all();
  EXPECT_TRUE(when->wait(s));
  EXPECT_TRUE(when->wait_on_device(tests::stream(1), s));
  EXPECT_EQ(driver.calls_in_all(), calls);
}

TEST_F(epochs_test, wait_blocks_until_another_thread_completes_it) {
  epoch_id const s = when->open();
  std::atomic<bool> finished{false};
  std::jthread other([&] {
    std::this_thread::sleep_for(30ms);
    finished = true;
    when->synchronize_done(when->synchronize_begins());
  });
  EXPECT_TRUE(when->wait(s));
  EXPECT_TRUE(finished.load());
}

TEST_F(epochs_test, a_wait_ends_where_work_does_not) {
  epoch_id const s = when->open();
  EXPECT_FALSE(when->wait(s, 1'000'000)) << "a kernel may be waiting for this thread";
  EXPECT_FALSE(when->is_done(s));
  driver.finish_all();
  EXPECT_TRUE(when->wait(s, 1'000'000));
}

TEST_F(epochs_test, wait_holds_no_lock_that_a_free_or_a_collection_needs) {
  epoch_id const s = when->open();
  std::jthread waiter([&] { EXPECT_TRUE(when->wait(s)); });
  std::this_thread::sleep_for(10ms);
  for (int i = 0; i < 100; ++i) when->poll_now();
  EXPECT_EQ(when->open() - s, 1u);
  driver.finish_all();
}

TEST_F(epochs_test, waiting_on_the_device_names_an_event_that_covers_the_free) {
  epoch_id const first = when->open();
  when->collect(when->open());
  epoch_id const second = when->open();
  ASSERT_TRUE(when->wait_on_device(tests::stream(1), first));
  EXPECT_EQ(records(), 1);
  ASSERT_TRUE(when->wait_on_device(tests::stream(2), second));
  EXPECT_EQ(records(), 2) << "the second free needed an event of its own";
  auto const waits = driver.stream_waits();
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].first, tests::stream(1));
  EXPECT_EQ(waits[1].first, tests::stream(2));
  EXPECT_NE(waits[0].second, waits[1].second);
  driver.fail("cuStreamWaitEvent", CUDA_ERROR_INVALID_HANDLE);
  EXPECT_FALSE(when->wait_on_device(tests::stream(3), second));
}

TEST_F(epochs_test, without_context_events_waiting_synchronises_the_context) {
  driver::real.cuCtxRecordEvent = nullptr;
  epoch_id const s = when->open();
  EXPECT_FALSE(when->collect(when->open()));
  EXPECT_FALSE(when->wait_on_device(tests::stream(1), s));
  EXPECT_FALSE(when->is_done(s));
  EXPECT_TRUE(when->wait(s));
  EXPECT_EQ(driver.calls("cuCtxSynchronize"), 1);
  EXPECT_EQ(driver.calls("cuCtxPushCurrent_v2"), driver.calls("cuCtxPopCurrent_v2"));
  EXPECT_FALSE(when->is_done(when->open()));
}

// A driver loses a capture to a synchronisation that comes after it, also one that a stream of the context
// has joined.
TEST_F(epochs_test, a_capture_waits_for_a_synchronisation_on_its_way_into_the_driver) {
  static std::atomic<bool> on_its_way, go;
  for (bool const joins : {false, true}) {
    driver.reset();
    driver::real.cuCtxRecordEvent = nullptr;
    on_its_way = go = false;
    driver::real.cuCtxSynchronize = [] {
      on_its_way = true;
      while (!go) std::this_thread::yield();
      return CUDA_SUCCESS;
    };
    std::jthread waiting([&] { EXPECT_TRUE(when->wait(when->open())); });
    while (!on_its_way) std::this_thread::yield();
    std::atomic<bool> began{false};
    std::jthread capturing([&] {
      if (joins) {
        when->join_begins();
      } else {
        when->capture_begins({tests::stream(1), tests::first_context, false});
      }
      began = true;
    });
    std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(began) << joins;
    go = true;
    capturing.join();
    waiting.join();
    if (joins) {
      when->join_ended(false);
    } else {
      when->capture_ended(tests::stream(1));
    }
  }
}

TEST_F(epochs_test, a_failed_record_covers_nothing) {
  epoch_id const s = when->open();
  driver.fail("cuCtxRecordEvent", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(when->collect(when->open()));
  driver.finish_all();
  EXPECT_FALSE(when->poll_now());
  EXPECT_FALSE(when->is_done(s));
  // The next event covers it.
  when->collect(s);
  EXPECT_EQ(driver.calls("cuEventCreate"), 1) << "the event of the failed record is used";
  driver.finish_all();
  EXPECT_TRUE(when->poll_now());
  EXPECT_TRUE(when->is_done(s));
}

TEST_F(epochs_test, a_failed_event_creation_covers_nothing) {
  epoch_id const s = when->open();
  driver.fail("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  when->collect(when->open());
  EXPECT_EQ(records(), 0);
  EXPECT_FALSE(when->is_done(s));
  driver.fail("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(when->wait(s)) << "falls back to a wait of its own";
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 1);
}

TEST_F(epochs_test, a_sticky_error_breaks_the_context) {
  epoch_id const s = when->open();
  when->collect(when->open());
  driver.fail("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS, 1000);
  EXPECT_FALSE(when->broken());
  EXPECT_FALSE(when->poll_now());
  EXPECT_TRUE(when->broken());
  EXPECT_FALSE(when->wait(s));
  EXPECT_FALSE(when->wait_on_device(tests::stream(1), s));
  EXPECT_FALSE(when->is_done(s));
  int const before = records();
  when->collect(when->open());
  EXPECT_EQ(records(), before);
}

// Natively the program would not hear of it: all goes on where the driver answers again.
TEST_F(epochs_test, an_event_that_could_not_be_asked_breaks_nothing) {
  epoch_id const s = when->open();
  when->collect(when->open());
  driver.finish_all();
  for (CUresult const code :
       {CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED}) {
    driver.fail("cuEventQuery", code);
    EXPECT_FALSE(when->poll_now());
    EXPECT_FALSE(when->is_done(s));
    EXPECT_TRUE(when->well());
  }
  EXPECT_TRUE(when->poll_now());
  EXPECT_TRUE(when->is_done(s));
}

TEST_F(epochs_test, a_wait_asks_again_where_the_driver_could_not_find_out) {
  epoch_id const s = when->open();
  when->collect(when->open());
  driver.finish_all();
  driver.fail("cuEventQuery", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(when->wait(s));
  driver.fail("cuEventQuery", CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  EXPECT_FALSE(when->wait(when->open())) << "not for ever";
  EXPECT_TRUE(when->well());
}

TEST_F(epochs_test, what_stays_unknown_is_a_context_that_is_lost) {
  when->collect(when->open());
  driver.fail("cuEventQuery", CUDA_ERROR_UNKNOWN, 2);
  EXPECT_FALSE(when->poll_now());
  EXPECT_FALSE(when->broken());
  EXPECT_FALSE(when->poll_now());
  EXPECT_TRUE(when->broken());
  EXPECT_EQ(when->loss(), CUDA_ERROR_UNKNOWN);
}

TEST_F(epochs_test, a_code_of_anything_else_is_no_loss) {
  for (CUresult const code :
       {CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NO_DEVICE}) {
    when->collect(when->open());
    driver.fail("cuEventQuery", code, 2);
    EXPECT_FALSE(when->poll_now()) << code;
    EXPECT_FALSE(when->wait(when->open())) << "and nobody waits for that";
    EXPECT_FALSE(when->broken()) << code;
    driver.finish_all();
    EXPECT_TRUE(when->poll_now()) << code;
  }
  when->collect(when->open());
  driver.fail("cuEventQuery", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  when->poll_now();
  EXPECT_TRUE(when->broken());
  EXPECT_EQ(when->loss(), CUDA_SUCCESS);
}

// With no event under way only the record of one can tell.
TEST_F(epochs_test, a_context_is_lost_by_a_record_that_says_so) {
  driver.fail("cuCtxRecordEvent", CUDA_ERROR_INVALID_HANDLE);
  when->look_for_loss();
  EXPECT_FALSE(when->broken()) << "that is no word about the context";
  driver.fail("cuCtxRecordEvent", CUDA_ERROR_ASSERT, 1000);
  when->look_for_loss();
  EXPECT_TRUE(when->broken());
  EXPECT_EQ(when->loss(), CUDA_ERROR_ASSERT);
  when->abandon();
  EXPECT_EQ(when->loss(), CUDA_SUCCESS) << "it is gone: nothing is said of it";
}

TEST_F(epochs_test, nobody_looks_for_a_loss_in_a_capture) {
  when->capture_begins({tests::stream(1)});
  driver.fail("cuCtxRecordEvent", CUDA_ERROR_ASSERT, 1000);
  when->look_for_loss();
  EXPECT_FALSE(when->broken());
  when->capture_ended(tests::stream(1));
}

TEST_F(epochs_test, a_wait_ends_when_the_context_breaks_or_goes) {
  epoch_id const s = when->open();
  when->collect(when->open());
  std::jthread other([&] {
    std::this_thread::sleep_for(20ms);
    when->abandon();
  });
  EXPECT_FALSE(when->wait(s));
}

TEST_F(epochs_test, a_failed_synchronisation_completes_nothing) {
  driver::real.cuCtxRecordEvent = nullptr;
  epoch_id const s = when->open();
  driver.fail("cuCtxSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(when->wait(s));
  EXPECT_FALSE(when->is_done(s));
}

// In a host function it makes no context current: that is no word about the context.
// Another thread ends it, and begins the next one, while this one waits.
TEST_F(epochs_test, an_event_that_went_with_its_context_is_none_of_the_next_ones) {
  driver.manual_events(false);
  bool ended = false;
  driver.at_wait([&] {
    if (std::exchange(ended, true)) return;
    when->abandon();
    when->begin_again(tests::second_context);
  });
  when->synchronize();
  ASSERT_TRUE(ended);
  int const made = driver.calls("cuEventCreate");
  when->collect(when->open());
  EXPECT_EQ(driver.calls("cuEventCreate"), made + 1) << "the one that was waited for is no more";
  EXPECT_EQ(when->synchronize(), CUDA_SUCCESS);
  when->collect(when->open());
  EXPECT_EQ(driver.calls("cuEventCreate"), made + 1) << "its own are used again";
}

TEST_F(epochs_test, a_synchronisation_that_the_driver_refuses_says_so) {
  for (CUresult const code : {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED}) {
    driver.fail("cuEventCreate", code);
    driver.fail("cuCtxPushCurrent_v2", code, 2);
    EXPECT_EQ(when->synchronize(), code);
    driver.reset();
  }
  driver.fail("cuCtxPushCurrent_v2", CUDA_ERROR_INVALID_CONTEXT, 2);
  driver.fail("cuEventCreate", CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(when->synchronize(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(driver.calls("cuCtxSynchronize"), 0);
}

// The number goes round after 2^32 epochs: it begins shortly before.
TEST_F(epochs_test, stamps_go_round) {
  epochs near_wrap(tests::first_context, 0, epoch_id{0} - 20);
  for (int i = 0; i < 40; ++i) {
    epoch_id const s = near_wrap.open();
    ASSERT_FALSE(near_wrap.is_done(s)) << s;
    ASSERT_TRUE(near_wrap.is_done(s - 1)) << s;
    near_wrap.synchronize_done(near_wrap.synchronize_begins());
    ASSERT_TRUE(near_wrap.is_done(s)) << s;
    ASSERT_TRUE(near_wrap.is_done(s - (1u << 30))) << s;
    ASSERT_FALSE(near_wrap.is_done(s + 1)) << s;
  }
}

}  // namespace
}  // namespace gpumem::stream_order
