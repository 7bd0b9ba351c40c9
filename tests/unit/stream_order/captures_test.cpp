// While a stream captures: no context event, no synchronisation, and every call in relaxed mode. The fixture
// demands after each test that no capture was hurt.
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "core/stream_order/watched_calls.hpp"
#include "tests/unit/stream_order/fixture.hpp"

namespace gpumem::stream_order {
namespace {

using captures_test = epochs_fixture;
CUstream const origin = tests::stream(1);

TEST_F(captures_test, no_event_is_recorded_and_frees_wait) {
  epoch_id const s = when->open();
  when->capture_begins({origin});
  driver.capture(origin);
  EXPECT_TRUE(when->capturing());
  EXPECT_FALSE(when->collect(when->open()));
  EXPECT_FALSE(when->wait(s));
  EXPECT_FALSE(when->wait_on_device(tests::stream(2), s));
  EXPECT_EQ(records(), 0);
  EXPECT_EQ(driver.calls("cuCtxSynchronize"), 0);
  driver.end_capture(origin);
  when->capture_ended(origin);
  EXPECT_FALSE(when->capturing());
  when->collect(when->open());
  driver.finish_all();
  when->poll_now();
  EXPECT_TRUE(when->is_done(s));
}

TEST_F(captures_test, a_begin_that_is_refused_leaves_the_capture_of_its_stream) {
  when->capture_begins({origin, nullptr, true});
  driver.capture(origin);
  when->capture_begins({origin, nullptr, false});  // which the driver refuses: the stream captures already
  when->capture_ended(origin);
  EXPECT_TRUE(when->capturing());
  EXPECT_EQ(watching_captures.load(), 1) << "the first is in global mode, and forbids what it forbids";
  driver.end_capture(origin);
  when->capture_ended(origin);
  EXPECT_EQ(watching_captures.load(), 0);
}

TEST_F(captures_test, nothing_happens_between_the_news_and_the_real_begin) {
  epoch_id const s = when->open();
  when->capture_begins({origin});
  EXPECT_FALSE(when->collect(when->open()));
  EXPECT_FALSE(when->wait(s));
  EXPECT_EQ(records(), 0);
  driver.capture(origin);
  driver.end_capture(origin);
  when->capture_ended(origin);
}

TEST_F(captures_test, events_recorded_before_are_asked_for_in_relaxed_mode) {
  epoch_id const s = when->open();
  when->collect(when->open());
  when->capture_begins({origin});
  driver.capture(origin);
  driver.finish_all();
  EXPECT_TRUE(when->poll_now());
  EXPECT_TRUE(when->is_done(s));
  EXPECT_EQ(driver.calls("cuThreadExchangeStreamCaptureMode"), 2) << "there and back";
  driver.end_capture(origin);
  when->capture_ended(origin);
}

TEST_F(captures_test, an_old_driver_is_not_synchronised_during_a_capture) {
  driver::real.cuCtxRecordEvent = nullptr;
  when->capture_begins({origin});
  driver.capture(origin);
  EXPECT_FALSE(when->wait(when->open()));
  EXPECT_EQ(driver.calls("cuCtxSynchronize"), 0);
  driver.end_capture(origin);
  when->capture_ended(origin);
}

TEST_F(captures_test, several_at_once_and_ends_without_a_begin) {
  when->capture_ended(tests::stream(9));
  EXPECT_FALSE(when->capturing());
  when->capture_begins({tests::stream(1)});
  when->capture_begins({tests::stream(2)});
  when->capture_ended(tests::stream(1));
  when->capture_ended(tests::stream(1));
  EXPECT_TRUE(when->capturing());
  EXPECT_EQ(active_captures.load(), 1);
  when->capture_ended(tests::stream(2));
  EXPECT_FALSE(when->capturing());
  EXPECT_EQ(active_captures.load(), 0);
}

TEST_F(captures_test, captures_of_a_context_that_goes_are_forgotten) {
  when->capture_begins({tests::stream(1)});
  when->capture_begins({tests::stream(2)});
  when->abandon();
  EXPECT_FALSE(when->capturing());
  EXPECT_EQ(active_captures.load(), 0);
}

// The capture that begins may be what lets the GPU go on.
TEST_F(captures_test, none_waits_for_a_synchronisation_that_is_under_way) {
  for (bool const has_context_events : {true, false}) {
    if (!has_context_events) driver::real.cuCtxRecordEvent = nullptr;
    std::promise<void> captured;
    std::future<void> const done = captured.get_future();
    std::jthread other;
    driver.at_wait([&] {
      other = std::jthread([&] {
        when->capture_begins({origin});
        when->capture_ended(origin);
        captured.set_value();
      });
      EXPECT_EQ(done.wait_for(std::chrono::seconds(5)), std::future_status::ready);
    });
    EXPECT_EQ(when->synchronize(), CUDA_SUCCESS);
    driver.at_wait(nullptr);
  }
}

TEST_F(captures_test, a_stream_that_joins_counts_until_no_capture_is_left) {
  epochs elsewhere(tests::second_context, 1);
  elsewhere.capture_begins({origin});
  EXPECT_FALSE(when->capturing());
  when->join_begins();
  EXPECT_TRUE(when->capturing()) << "before it is known";
  when->join_ended(false);
  EXPECT_FALSE(when->capturing());
  for (int i = 0; i < 3; ++i) {
    when->join_begins();
    when->join_ended(true);
  }
  EXPECT_FALSE(when->collect(when->open()));
  EXPECT_EQ(when->synchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(records(), 0);
  when->joins_over();
  EXPECT_TRUE(when->capturing()) << "that capture still runs";
  elsewhere.capture_ended(origin);
  when->joins_over();
  when->joins_over();
  EXPECT_FALSE(when->capturing());
  when->join_begins();
  when->abandon();
  when->join_ended(true);
  EXPECT_FALSE(when->capturing()) << "a context that went meanwhile";
}

TEST_F(captures_test, those_of_a_green_context_go_with_it) {
  when->capture_begins({tests::stream(1), tests::second_context, true});
  when->capture_begins({tests::stream(2), tests::first_context});
  EXPECT_EQ(watching_captures.load(), 1);
  when->captures_gone(tests::second_context);
  EXPECT_EQ(watching_captures.load(), 0);
  EXPECT_TRUE(when->capturing());
  when->capture_ended(tests::stream(2));
  EXPECT_FALSE(when->capturing());
}

TEST_F(captures_test, a_context_that_is_watched_is_not_well_and_nothing_else) {
  when->watch(true);
  when->watch(true);
  EXPECT_FALSE(when->well());
  EXPECT_FALSE(when->broken());
  EXPECT_FALSE(when->ending());
  when->watch(false);
  EXPECT_TRUE(when->well());
}

// Threads that free, collect and wait against a thread that captures: no record may ever meet a capture.
TEST_F(captures_test, threads_never_hurt_a_capture) {
  driver.manual_events(false);
  std::atomic<bool> stop{false};
  {
    std::vector<std::jthread> others;
    for (int t = 0; t < 3; ++t) {
      others.emplace_back([&] {
        while (!stop.load()) {
          when->collect(when->open());
          when->wait(when->open());
          when->wait_on_device(tests::stream(5), when->open());
        }
      });
    }
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    // Beside other programs all these rounds may be over before another thread had its turn.
    for (int round = 0; (round < 3000 || records() == 0) && std::chrono::steady_clock::now() < end; ++round) {
      when->capture_begins({origin});
      driver.capture(origin);
      std::this_thread::yield();
      driver.end_capture(origin);
      when->capture_ended(origin);
    }
    stop = true;
  }
  EXPECT_GT(records(), 0);
}

}  // namespace
}  // namespace gpumem::stream_order
