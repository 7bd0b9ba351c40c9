// Holds a flag for as long as it lives; whoever finds it taken waits (backoff). For places that are seldom
// met, where a lock with a state of its own would have to be made anew in a forked child. Any thread; a
// thread is not cancelled while it holds one. Not for a signal handler that may meet its own thread's.
#pragma once

#include <atomic>

#include "core/base/threads/backoff.hpp"
#include "core/base/threads/uncancelled.hpp"

namespace gpumem::base {

class yielding_guard {
 public:
  explicit yielding_guard(std::atomic_flag& busy) noexcept : busy_(busy) {
    wait_until([this] { return !busy_.test_and_set(std::memory_order_acquire); });
  }
  ~yielding_guard() { busy_.clear(std::memory_order_release); }
  yielding_guard(yielding_guard const&) = delete;

 private:
  uncancelled const held_;
  std::atomic_flag& busy_;
};

}  // namespace gpumem::base
