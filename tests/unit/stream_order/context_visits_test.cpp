// Who may make a context current for a moment, and whom its end waits for.
#include "core/stream_order/context_visits.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/stream_order/epochs.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::stream_order {

namespace {

CUcontext const visited = tests::first_context;
CUcontext const another = tests::second_context;

using context_visits::if_ending;
using context_visits::patience;

// Nobody enters it.
bool may_be_ending(CUcontext context) {
  if (!context_visits::enter(context, if_ending::refuse)) return true;
  context_visits::leave(context);
  return false;
}

struct context_visits_test : testing::Test {
  void SetUp() override { tests::fake_driver::instance().reset(); }
  void TearDown() override {
    EXPECT_FALSE(may_be_ending(visited));
    EXPECT_FALSE(may_be_ending(another));
  }
};

TEST_F(context_visits_test, what_may_be_ending_is_entered_by_nobody) {
  context_visits::end_begins(visited, patience::minute);
  EXPECT_TRUE(may_be_ending(visited));
  EXPECT_FALSE(context_visits::enter(visited, if_ending::refuse));
  EXPECT_TRUE(context_visits::enter(another, if_ending::refuse)) << "that one is not ending";
  context_visits::leave(another);
  context_visits::end_over(visited);
  EXPECT_FALSE(may_be_ending(visited));
  EXPECT_TRUE(context_visits::enter(visited, if_ending::refuse));
  context_visits::leave(visited);
}

TEST_F(context_visits_test, calls_that_may_end_it_run_inside_one_another) {
  context_visits::end_begins(visited, patience::minute);
  context_visits::end_begins(visited, patience::minute);
  context_visits::end_over(visited);
  EXPECT_FALSE(context_visits::enter(visited, if_ending::refuse));
  context_visits::end_over(visited);
  EXPECT_TRUE(context_visits::enter(visited, if_ending::refuse));
  context_visits::leave(visited);
}

TEST_F(context_visits_test, an_end_waits_for_who_is_inside) {
  ASSERT_TRUE(context_visits::enter(visited, if_ending::refuse));
  ASSERT_TRUE(context_visits::enter(visited, if_ending::refuse)) << "two threads may be";
  std::atomic<bool> left{false};
  std::jthread const leaver([&] {
    while (!may_be_ending(visited)) std::this_thread::yield();
    context_visits::leave(visited);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left = true;
    context_visits::leave(visited);
  });
  context_visits::end_begins(visited, patience::minute);
  EXPECT_TRUE(left);
  context_visits::end_over(visited);
}

TEST_F(context_visits_test, an_end_does_not_wait_for_ever) {
  ASSERT_TRUE(context_visits::enter(visited, if_ending::refuse));
  context_visits::end_begins(visited, patience{1'000'000});
  context_visits::end_over(visited);
  context_visits::leave(visited);
  EXPECT_TRUE(context_visits::enter(visited, if_ending::refuse));
  context_visits::leave(visited);
}

TEST_F(context_visits_test, who_can_wait_enters_when_the_call_is_over) {
  context_visits::end_begins(visited, patience::minute);
  std::jthread const ender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    context_visits::end_over(visited);
  });
  EXPECT_TRUE(context_visits::enter(visited, if_ending::wait));
  EXPECT_FALSE(may_be_ending(visited));
  context_visits::leave(visited);
}

TEST_F(context_visits_test, calls_that_come_again_and_again_keep_nobody_out) {
  std::atomic<bool> stop{false};
  std::jthread const looker([&] {
    while (!stop) {
      context_visits::end_begins(visited, patience::minute);
      context_visits::end_over(visited);
    }
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(context_visits::enter(visited, if_ending::wait));
    context_visits::leave(visited);
  }
  stop = true;
}

TEST_F(context_visits_test, a_guard_enters_only_what_is_not_current) {
  tests::fake_driver& driver = tests::fake_driver::instance();
  tests::in_context const chosen(visited);
  context_visits::end_begins(visited, patience::minute);
  context_visits::end_begins(another, patience::minute);
  {
    scoped_context const own(visited);
    EXPECT_TRUE(own.is_there()) << "this thread is in it by the program's wish";
    int const before = driver.calls("cuCtxPushCurrent_v2");
    scoped_context const others(another);
    EXPECT_FALSE(others.is_there());
    EXPECT_EQ(others.code(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(driver.calls("cuCtxPushCurrent_v2"), before);
  }
  context_visits::end_over(another);
  context_visits::end_over(visited);
  {
    scoped_context const others(another);
    EXPECT_TRUE(others.is_there());
  }
  context_visits::end_begins(another, patience::minute);  // and waits for nobody
  context_visits::end_over(another);
}

// A handle of what has ended may be another's by now.
TEST_F(context_visits_test, what_has_ended_is_not_entered) {
  tests::fake_driver& driver = tests::fake_driver::instance();
  tests::in_context const chosen(visited);
  epochs ended(another, 0);
  EXPECT_TRUE(ended.enter().is_there());
  ended.abandon();
  int const before = driver.calls("cuCtxPushCurrent_v2");
  EXPECT_EQ(ended.enter(if_ending::wait).code(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(driver.calls("cuCtxPushCurrent_v2"), before);
  context_visits::end_begins(another, patience::minute);  // nobody is inside
  context_visits::end_over(another);
}

}  // namespace

}  // namespace gpumem::stream_order
