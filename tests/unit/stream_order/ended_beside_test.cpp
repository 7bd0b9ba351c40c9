// Another thread ends the context at each driver call of epochs in turn: until it has, the call may be under
// way; from then on the driver hears nothing of this context's events and streams, whose handles are others'
// by then. The end is told at once, or only when epochs are through.
#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>

#include "tests/unit/stream_order/fixture.hpp"

namespace gpumem::stream_order {
namespace {

using namespace std::chrono_literals;
using context_visits::patience;

struct ended_beside : epochs_fixture {
  std::thread ender;
  std::atomic<bool> ended{false}, through{false};

  // As the hook of a call that ends the context: see route::context_ending.
  void end(bool told_at_once) {
    when->end_begins();
    context_visits::end_begins(tests::first_context, patience::minute);
    driver.end_context(tests::first_context, true);
    ended = true;
    while (!told_at_once && !through) std::this_thread::yield();
    when->abandon();
    context_visits::end_over(tests::first_context);
    when->end_failed();
  }
  static bool is_of_no_context(std::string_view name) {
    constexpr std::array<std::string_view, 3> all{"cuCtxGetCurrent", "cuCtxGetId",
                                                  "cuThreadExchangeStreamCaptureMode"};
    return std::find(all.begin(), all.end(), name) != all.end();
  }
  // An epoch that waits for its event, and an event that is spare.
  void fresh() {
    when->abandon();
    delete when;
    driver.reset();
    driver.manual_events(true);
    when = new epochs(tests::first_context, 0, 1, driver::id_of(tests::first_context));
    when->collect(when->open());
    when->collect(when->open());
    driver.finish_oldest();
    when->poll_now();
  }
  // The end comes at the call of this number; whether there was such a call.
  template <typename Own>
  bool run(int at, bool told_at_once, Own own) {
    fresh();
    ended = through = false;
    int calls = 0;
    driver.at_call([&, me = std::this_thread::get_id()](char const* name) {
      if (std::this_thread::get_id() != me) return;
      if (calls++ == at) {
        ender = std::thread([this, told_at_once] { end(told_at_once); });
        for (int i = 0; i < 200 && !ended; ++i) std::this_thread::sleep_for(100us);  // or it waits for us
      }
      EXPECT_FALSE(ended && !is_of_no_context(name)) << name << ", the end came at call " << at;
    });
    own();
    through = true;
    driver.at_call(nullptr);
    if (!ender.joinable()) return false;
    ender.join();
    return true;
  }
  template <typename Own>
  void expect_untouched(Own own) {
    for (int at = 0; run(at, false, own); ++at) {
    }
  }
  // What waits for the end waits until it is told.
  template <typename Own>
  void expect_untouched_if_told(Own own) {
    for (int at = 0; run(at, true, own); ++at) {
    }
  }
};

TEST_F(ended_beside, a_look_at_what_is_done) {
  expect_untouched([this] { when->poll_now(); });
}

TEST_F(ended_beside, the_close_of_an_epoch) {
  expect_untouched([this] { when->collect(when->open()); });
  expect_untouched([this] { when->look_for_loss(); });
  expect_untouched([this] {  // there are no spare ones for the second
    when->collect(when->open());
    when->collect(when->open());
  });
}

TEST_F(ended_beside, a_wait_on_the_device) {
  expect_untouched([this] { when->wait_on_device(tests::stream(1), when->open()); });
  expect_untouched([this] { when->wait_on_device(tests::stream(1), when->open(), tests::stream(2)); });
}

TEST_F(ended_beside, a_question_about_a_stream) {
  driver::real.cuStreamGetFlags = [](CUstream, unsigned* flags) {
    *flags = CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
  };
  expect_untouched([this] { when->is_idle(tests::stream(1)); });
}

TEST_F(ended_beside, work_that_another_context_waits_for) {
  expect_untouched([this] {
    epochs other(tests::second_context, 0);
    other.await(*when, tests::stream(1));
  });
}

TEST_F(ended_beside, a_wait_on_the_host) {
  expect_untouched_if_told([this] {
    driver.finish_all();
    driver.manual_events(false);
    when->wait(when->open());
  });
}

TEST_F(ended_beside, a_synchronisation) {
  expect_untouched_if_told([this] { when->synchronize(); });
}

TEST_F(ended_beside, one_of_a_driver_without_events_of_contexts) {
  expect_untouched_if_told([this] {
    driver::real.cuCtxRecordEvent = nullptr;
    when->wait(when->open());
  });
}

// Libraries look at the primary context all the time, which ends nothing.
TEST_F(ended_beside, a_call_that_ends_nothing_keeps_nobody_from_what_is_done) {
  fresh();
  epoch_id const s = when->open();
  when->end_begins();
  EXPECT_FALSE(when->collect(s)) << "whoever is elsewhere cannot know that it ends nothing";
  {
    tests::in_context const mine(tests::first_context);
    driver.finish_all();
    EXPECT_TRUE(when->poll_now()) << "nor can it end while its own thread is here";
  }
  driver.manual_events(false);
  std::jthread other([&] {
    while (when->ending()) std::this_thread::yield();
  });
  std::jthread ends([&] { when->end_failed(); });
  EXPECT_TRUE(when->wait(s)) << "a wait is for the end of that call, too";
}

}  // namespace
}  // namespace gpumem::stream_order
