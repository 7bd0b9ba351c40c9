// A lock that costs the thread it is biased to no atomic read-modify-write: two plain stores and a load. Any
// other thread may take it too, and pays for that with a barrier on all threads of the process (membarrier,
// some microseconds), the asymmetric form of Dekker's algorithm (Dice, Huang, Yang: "Asymmetric Dekker
// Synchronization", 2001). After a few such visits, or where the kernel has no membarrier, it is a spin lock
// for everybody. When its thread has ended it is biased to the next one that comes. For data that one thread
// uses all the time and others nearly never: magazines. Never held across a call that blocks.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "core/base/threads/backoff.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/base/threads/thread_identity.hpp"

namespace gpumem::base {

// Whether the kernel has the barrier. Only asks.
bool has_barrier() noexcept;
// Once, while the process has one thread: later it waits for all processors, 5 to 20 ms (measured), and the
// first visitor would do it with a pool's mutex held. A kernel without the barrier refuses. Inline: every
// process calls it, also without CUDA, and else touched a further page of code.
inline void register_barrier() noexcept {
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}
void barrier_on_all_threads() noexcept;

class biased_lock {
 public:
  // How the lock is held: what unlock() must know.
  enum class hold : unsigned char { biased, plain, visitor };

  // From now on this thread's, if it has an identity. Only while no thread that it was biased to lives or
  // uses it.
  void bias_to_this_thread() noexcept {
    if (has_barrier() && this_thread != nobody) owner_.store(this_thread, std::memory_order_release);
  }

  hold lock() noexcept { return lock_biased() ? hold::biased : lock_slowly(); }
  // For a path without calls: false where it would cost one. True is hold::biased.
  bool lock_biased() noexcept {
    if (owner_.load(std::memory_order_relaxed) != this_thread) [[unlikely]]
      return false;
    interleave();
    inside_.store(true, std::memory_order_relaxed);
    // The barrier of a visitor orders this store before the load for the processor; this does for the
    // compiler.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    interleave();
    if (!visited_.load(std::memory_order_acquire)) [[likely]]
      return true;
    inside_.store(false, std::memory_order_release);
    return false;
  }
  void unlock(hold how) noexcept {
    interleave();
    if (how == hold::biased) [[likely]] {
      inside_.store(false, std::memory_order_release);
      return;
    }
    // Of nobody any more: it stays visited, for an owner that was overtaken between its look at owner_ and
    // here.
    if (how == hold::visitor && owner_.load(std::memory_order_relaxed) != unbiased) {
      visited_.store(false, std::memory_order_release);
    }
    held_.store(false, std::memory_order_release);
  }

  // Several locks at once with one barrier: announce() each, then one barrier_on_all_threads(), then enter()
  // each, and at last unlock(hold::visitor) each. One thread at a time may do this with the same locks.
  void announce() noexcept {
    take();
    visited_.store(true, std::memory_order_seq_cst);
  }
  void enter() noexcept {
    wait_until([this] { return !inside_.load(std::memory_order_acquire); });
  }
  // Whether a visitor needs the barrier.
  bool biased_to_another() const noexcept {
    thread_identity const owner = owner_.load(std::memory_order_relaxed);
    return owner != unbiased && owner != this_thread;
  }

 private:
  static constexpr int most_visits = 16;
  static constexpr thread_identity unbiased = ~thread_identity{0};

  // Of a thread that is not its owner, or of an owner that met a visitor.
  hold lock_slowly() noexcept;
  void take() noexcept {
    while (held_.exchange(true, std::memory_order_acquire)) {
      wait_until<first_looks::plain>([this] { return !held_.load(std::memory_order_relaxed); });
    }
  }

  std::atomic<thread_identity> owner_{unbiased};
  std::atomic<bool> inside_{false};   // written by the owner only
  std::atomic<bool> visited_{false};  // another thread is inside, or about to be; written under held_
  std::atomic<bool> held_{false};
  int visits_ = 0;                         // under held_
  thread_identity last_owner_ = unbiased;  // under held_: of one that lost it to visitors
};

}  // namespace gpumem::base
