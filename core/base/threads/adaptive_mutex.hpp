// A mutex for work of some hundred nanoseconds that many threads do all the time. A thread that finds it
// held tries again for some microseconds before it sleeps, because a sleeping thread has to be woken (16
// threads of mixed sizes on an NVIDIA H200: 0.5 million pairs a second with std::mutex alone). Used like
// std::mutex, by any thread; never held across a call that blocks.
#pragma once

#include <atomic>
#include <mutex>

namespace gpumem::base {

class adaptive_mutex {
 public:
  void lock() noexcept {
    if (try_lock()) return;
    for (int looks = 0; looks < most_looks; ++looks) {
      pause();
      if (!held_.load(std::memory_order_relaxed) && try_lock()) return;
    }
    mutex_.lock();
    held_.store(true, std::memory_order_relaxed);
  }
  bool try_lock() noexcept {
    if (!mutex_.try_lock()) return false;
    held_.store(true, std::memory_order_relaxed);
    return true;
  }
  void unlock() noexcept {
    held_.store(false, std::memory_order_relaxed);
    mutex_.unlock();
  }

 private:
  static constexpr int most_looks = 50;  // not tuned: longer than the mutex is held, shorter than a wake-up

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    asm volatile("yield");
#endif
  }

  std::mutex mutex_;
  std::atomic<bool> held_{false};  // a hint that costs waiters no write
};

}  // namespace gpumem::base
