// A lock for a few dozen instructions, nearly always of one thread: one exchange to take, one store to give
// back. Waiters yield after a short spin and then sleep, so that a descheduled holder gets its processor.
// Never held across a call that can block, nor across a driver call.
#pragma once

#include <atomic>

#include "core/base/threads/backoff.hpp"
#include "core/base/threads/interleave.hpp"

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
    base::wait_until([this] { return !held_.load(std::memory_order_relaxed); });
  }
  std::atomic<bool> held_{false};
};

}  // namespace gpumem::space
