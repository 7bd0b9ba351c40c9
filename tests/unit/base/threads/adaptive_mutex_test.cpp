// A mutex that excludes, whether its waiters still look for it or sleep.
#include "core/base/threads/adaptive_mutex.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace gpumem::base {
namespace {

TEST(adaptive_mutex, is_one_threads_at_a_time) {
  adaptive_mutex mutex;
  int count = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int each = 0; each < 20'000; ++each) {
          std::lock_guard const held(mutex);
          ++count;
        }
      });
    }
  }
  EXPECT_EQ(count, 80'000);
}

TEST(adaptive_mutex, who_sleeps_is_woken) {
  adaptive_mutex mutex;
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock());
  int woken = 0;
  std::vector<std::jthread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&] {
      std::lock_guard const held(mutex);
      ++woken;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until they sleep
  EXPECT_EQ(woken, 0);
  mutex.unlock();
  sleepers.clear();
  EXPECT_EQ(woken, 3);
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace gpumem::base
