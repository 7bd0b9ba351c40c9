// While a stream captures: no context event, no synchronisation, and every call in relaxed mode. The fixture
// demands after each test that no capture was hurt.
#include <chrono>
#include <thread>
#include <vector>

#include "tests/unit/stream_order/fixture.hpp"

namespace gpumem::stream_order {
namespace {

using captures_test = epochs_fixture;
CUstream const origin = tests::stream(1);

TEST_F(captures_test, no_event_is_recorded_and_frees_wait) {
  stamp const s = when->open();
  when->capture_begins(origin);
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

TEST_F(captures_test, nothing_happens_between_the_news_and_the_real_begin) {
  stamp const s = when->open();
  when->capture_begins(origin);
  EXPECT_FALSE(when->collect(when->open()));
  EXPECT_FALSE(when->wait(s));
  EXPECT_EQ(records(), 0);
  driver.capture(origin);
  driver.end_capture(origin);
  when->capture_ended(origin);
}

TEST_F(captures_test, events_recorded_before_are_asked_for_in_relaxed_mode) {
  stamp const s = when->open();
  when->collect(when->open());
  when->capture_begins(origin);
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
  when->capture_begins(origin);
  driver.capture(origin);
  EXPECT_FALSE(when->wait(when->open()));
  EXPECT_EQ(driver.calls("cuCtxSynchronize"), 0);
  driver.end_capture(origin);
  when->capture_ended(origin);
}

TEST_F(captures_test, several_at_once_and_ends_without_a_begin) {
  when->capture_ended(tests::stream(9));
  EXPECT_FALSE(when->capturing());
  when->capture_begins(tests::stream(1));
  when->capture_begins(tests::stream(2));
  when->capture_ended(tests::stream(1));
  when->capture_ended(tests::stream(1));
  EXPECT_TRUE(when->capturing());
  EXPECT_EQ(active_captures.load(), 1);
  when->capture_ended(tests::stream(2));
  EXPECT_FALSE(when->capturing());
  EXPECT_EQ(active_captures.load(), 0);
}

TEST_F(captures_test, captures_of_a_context_that_goes_are_forgotten) {
  when->capture_begins(tests::stream(1));
  when->capture_begins(tests::stream(2));
  when->abandon();
  EXPECT_FALSE(when->capturing());
  EXPECT_EQ(active_captures.load(), 0);
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
    for (int round = 0; round < 3000 && std::chrono::steady_clock::now() < end; ++round) {
      when->capture_begins(origin);
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
