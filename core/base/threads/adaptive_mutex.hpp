// A mutex for work of some hundred nanoseconds that many threads do all the time. A thread that finds it
// held tries again for some microseconds before it sleeps, because a sleeping thread has to be woken (16
// threads of mixed sizes on an NVIDIA H200: 0.5 million pairs a second with std::mutex alone). One that
// nobody else wants costs two atomic operations and no call. Used like std::mutex, by any thread; never held
// across a call that blocks.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/threads/interleave.hpp"

namespace gpumem::base {

class adaptive_mutex {
 public:
  void lock() noexcept {
    interleave();
    if (!try_lock()) [[unlikely]]
      lock_slowly();
  }
  bool try_lock() noexcept {
    std::uint32_t seen = free;
    return state_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    interleave();
    if (state_.exchange(free, std::memory_order_release) == awaited) [[unlikely]]
      wake();
  }

 private:
  // Awaited: held, and a thread may sleep until it is not (Drepper: "Futexes Are Tricky", 2011, mutex2).
  static constexpr std::uint32_t free = 0, held = 1, awaited = 2;

  void lock_slowly() noexcept;
  void wake() noexcept;

  std::atomic<std::uint32_t> state_{free};
};

}  // namespace gpumem::base
