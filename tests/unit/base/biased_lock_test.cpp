// The biased lock: exclusive among its owner, visitors with and without the barrier, and after the bias is
// lost.
#include "core/base/threads/biased_lock.hpp"

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

namespace gpumem::base {
namespace {

using hold = biased_lock::hold;

// A thread that has an identity for as long as this lives.
struct attached {
  attached() { begin_thread(); }
  ~attached() { end_thread(); }
  attached(attached const&) = delete;
};

TEST(biased_lock, its_owner_holds_it_without_the_plain_lock) {
  attached const mine;
  biased_lock lock;
  EXPECT_EQ(lock.lock(), hold::plain);
  lock.unlock(hold::plain);
  lock.bias_to_this_thread();
  hold const how = lock.lock();
  EXPECT_EQ(how, has_barrier() ? hold::biased : hold::plain);
  lock.unlock(how);
}

// First, before anybody registers.
TEST(biased_lock, its_owner_registers_nothing_and_visitors_need_it) {
  attached const mine;
  if (!has_barrier()) GTEST_SKIP() << "this kernel has no membarrier";
  biased_lock lock;
  lock.bias_to_this_thread();
  lock.unlock(lock.lock());
  EXPECT_EQ(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0), -1);
  EXPECT_EQ(errno, EPERM);
  register_barrier();
  EXPECT_EQ(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0), 0);
}

TEST(biased_lock, after_many_visits_nobody_is_favoured) {
  attached const mine;
  biased_lock lock;
  lock.bias_to_this_thread();
  if (!has_barrier()) GTEST_SKIP() << "this kernel has no membarrier";
  std::jthread([&] {
    for (int i = 0; i < 15; ++i) {
      hold const how = lock.lock();
      EXPECT_EQ(how, hold::visitor);
      lock.unlock(how);
    }
    hold const last = lock.lock();
    EXPECT_EQ(last, hold::plain);
    lock.unlock(last);
  }).join();
  hold const how = lock.lock();
  EXPECT_EQ(how, hold::plain);
  lock.unlock(how);
}

TEST(biased_lock, without_an_identity_nobody_is_favoured) {
  biased_lock lock;
  lock.bias_to_this_thread();
  hold const how = lock.lock();
  EXPECT_EQ(how, hold::plain);
  lock.unlock(how);
}

// A stream's magazine, whose thread ended; also where threads had shared it before.
TEST(biased_lock, when_its_thread_has_ended_the_next_one_is_favoured) {
  if (!has_barrier()) GTEST_SKIP() << "this kernel has no membarrier";
  for (int const visits : {0, 20}) {
    biased_lock lock;
    std::jthread([&] {
      attached const first;
      lock.bias_to_this_thread();
      std::jthread([&] {
        attached const visitor;
        for (int i = 0; i < visits; ++i) lock.unlock(lock.lock());
      }).join();
    }).join();
    attached const mine;
    lock.unlock(lock.lock());
    hold const how = lock.lock();
    EXPECT_EQ(how, hold::biased) << visits << " visits";
    lock.unlock(how);
  }
}

TEST(biased_lock, of_a_thread_that_lives_nobody_takes_it_over) {
  if (!has_barrier()) GTEST_SKIP() << "this kernel has no membarrier";
  attached const mine;
  biased_lock lock;
  lock.bias_to_this_thread();
  std::jthread([&] {
    attached const visitor;
    for (int i = 0; i < 3; ++i) {
      hold const how = lock.lock();
      EXPECT_EQ(how, hold::visitor);
      lock.unlock(how);
    }
  }).join();
  hold const how = lock.lock();
  EXPECT_EQ(how, hold::biased);
  lock.unlock(how);
}

// A counter that loses additions unless the lock excludes: the owner, visitors that come rarely by the way of
// flushes, and (second round) threads that come all the time.
TEST(biased_lock, excludes) {
  attached const mine;
  for (bool const often : {false, true}) {
    biased_lock lock;
    std::uint64_t volatile counter = 0;
    std::uint64_t added = 0;
    std::atomic<std::uint64_t> added_by_others{0};
    std::atomic<bool> stop{false};
    lock.bias_to_this_thread();
    auto const add = [&] {
      std::uint64_t const seen = counter;
      counter = seen + 1;
    };
    std::vector<std::jthread> others;
    for (int t = 0; t < (often ? 3 : 1); ++t) {
      others.emplace_back([&] {
        attached const other;
        while (!stop.load(std::memory_order_relaxed)) {
          if (often) {
            hold const how = lock.lock();
            add();
            lock.unlock(how);
          } else {
            lock.announce();
            if (lock.biased_to_another()) barrier_on_all_threads();
            lock.enter();
            add();
            lock.unlock(hold::visitor);
          }
          added_by_others.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
    while (added < 300'000 || added_by_others.load(std::memory_order_relaxed) < 1000) {
      hold const how = lock.lock();
      add();
      lock.unlock(how);
      ++added;
    }
    stop = true;
    others.clear();
    EXPECT_EQ(counter, added + added_by_others.load());
    EXPECT_GT(added_by_others.load(), 0u);
  }
}

}  // namespace
}  // namespace gpumem::base
