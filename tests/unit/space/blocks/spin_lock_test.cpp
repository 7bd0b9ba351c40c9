// The spin lock excludes, and whoever waits long for it sleeps, so that a holder of lower priority on the
// same processor gets on.
#include "core/space/blocks/spin_lock.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/unit/slow_holder.hpp"

namespace gpumem::space {
namespace {

TEST(spin_lock, excludes) {
  spin_lock lock;
  std::uint64_t volatile counter = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        std::lock_guard const held(lock);
        std::uint64_t const seen = counter;
        counter = seen + 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(counter, 60'000u);
}

TEST(spin_lock, a_real_time_thread_lets_its_holder_run) {
  int const waiter = tests::may_be_real_time() ? SCHED_FIFO : SCHED_OTHER;
  for (int const holder : {SCHED_OTHER, SCHED_IDLE}) {
    spin_lock lock;
    EXPECT_TRUE(tests::waiter_sleeps(
        {waiter, holder}, [&] { lock.lock(); }, [&] { lock.unlock(); },
        [&] { std::lock_guard const held(lock); }));
  }
}

}  // namespace
}  // namespace gpumem::space
