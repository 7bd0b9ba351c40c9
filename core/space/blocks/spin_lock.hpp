// A lock for a few dozen instructions, nearly always of one thread: one exchange to take, one store to give
// back. Waiters yield after a short spin, so that a descheduled holder does not burn a core. Never held
// across a call that can block, nor across a driver call.
#pragma once

#include <sched.h>

#include <atomic>

#include "core/base/threads/interleave.hpp"
#include "core/base/threads/processor_hints.hpp"

namespace gpumem::space {

class spin_lock {
 public:
  // As of std::mutex.
  void lock() noexcept {
    while (held_.exchange(true, std::memory_order_acquire)) wait();
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept {
    base::interleave();
    held_.store(false, std::memory_order_release);
  }

 private:
  void wait() noexcept {
    for (int spins = 0; held_.load(std::memory_order_relaxed); ++spins) {
      if (spins > 64)
        sched_yield();
      else
        base::pause();
    }
  }
  std::atomic<bool> held_{false};
};

}  // namespace gpumem::space
