// How threads wait for each other: whoever waits long sleeps, so that a holder of lower priority on the same
// processor gets on; errno stays, and no wait is a point of cancellation.
#include "core/base/threads/backoff.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "core/base/threads/biased_lock.hpp"
#include "core/base/threads/thread_identity.hpp"
#include "core/base/threads/yielding_guard.hpp"
#include "tests/unit/slow_holder.hpp"

namespace gpumem::base {
namespace {

using tests::waiter_sleeps;

// Each with the name of its waiter's and its holder's policy.
class waits : public testing::TestWithParam<tests::priorities> {
 protected:
  void SetUp() override {
    if (GetParam().waiter == SCHED_FIFO && !tests::may_be_real_time())
      GTEST_SKIP() << "no right to real-time priorities";
  }
};

INSTANTIATE_TEST_SUITE_P(backoff, waits,
                         testing::Values(tests::priorities{SCHED_OTHER, SCHED_OTHER},
                                         tests::priorities{SCHED_OTHER, SCHED_IDLE},
                                         tests::priorities{SCHED_FIFO, SCHED_OTHER},
                                         tests::priorities{SCHED_FIFO, SCHED_IDLE}),
                         [](auto const& of) {
                           std::string const waiter = of.param.waiter == SCHED_FIFO ? "real_time" : "usual";
                           return waiter + (of.param.holder == SCHED_IDLE ? "_for_idle" : "_for_usual");
                         });

TEST_P(waits, sleep) {
  std::atomic<bool> held{false};
  EXPECT_TRUE(waiter_sleeps(
      GetParam(), [&] { held = true; }, [&] { held = false; },
      [&] { wait_until([&] { return !held.load(); }); }));
}

TEST_P(waits, for_a_guard_sleep) {
  std::atomic_flag busy;
  EXPECT_TRUE(waiter_sleeps(
      GetParam(), [&] { busy.test_and_set(); }, [&] { busy.clear(); },
      [&] { yielding_guard const guard(busy); }));
}

TEST_P(waits, for_a_shared_lock_sleep) {
  biased_lock lock;
  EXPECT_TRUE(waiter_sleeps(
      GetParam(), [&] { lock.lock(); }, [&] { lock.unlock(biased_lock::hold::plain); },
      [&] { lock.unlock(lock.lock()); }));
}

TEST_P(waits, for_the_owner_of_a_lock_sleep) {
  if (!has_barrier()) GTEST_SKIP() << "this kernel has no membarrier";
  biased_lock lock;
  auto const take = [&] {
    begin_thread();
    lock.bias_to_this_thread();
    EXPECT_EQ(lock.lock(), biased_lock::hold::biased);
  };
  auto const give = [&] {
    lock.unlock(biased_lock::hold::biased);
    end_thread();
  };
  EXPECT_TRUE(waiter_sleeps(GetParam(), take, give, [&] { lock.unlock(lock.lock()); }));
}

TEST(backoff, keeps_errno) {
  backoff<> between;
  errno = 77;
  for (int i = 0; i < 400; ++i) between.wait();
  EXPECT_EQ(errno, 77);
}

TEST(backoff, is_no_point_of_cancellation) {
  std::atomic<bool> asked{false}, over{false};
  std::thread waiter([&] {
    wait_until([&] { return asked.load(); });
    backoff<> between;
    for (int i = 0; i < 400; ++i) between.wait();
    over = true;
    pthread_testcancel();
    over = false;
  });
  pthread_cancel(waiter.native_handle());
  asked = true;
  waiter.join();
  EXPECT_TRUE(over.load());
}

}  // namespace
}  // namespace gpumem::base
