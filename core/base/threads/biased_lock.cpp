// See biased_lock.hpp.
#include "core/base/threads/biased_lock.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/threads/sleep.hpp"

namespace gpumem::base {

namespace {

long membarrier(int command) noexcept {
  return syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

bool has_barrier() noexcept {
  static bool const has = [] {
    constexpr long needed = MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    long const known = membarrier(MEMBARRIER_CMD_QUERY);
    return known >= 0 && (known & needed) == needed;
  }();
  return has;
}

void barrier_on_all_threads() noexcept {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  // Not registered at load, or no more (fork on old kernels).
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
      membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) {
    return;
  }
  // A sandbox put up since then forbids the call: a store buffer is long empty after a millisecond.
  sleep_for(1'000'000);
}

biased_lock::hold biased_lock::lock_slowly() noexcept {
  take();
  thread_identity owner = owner_.load(std::memory_order_relaxed);
  if (owner == this_thread) return hold::plain;
  if (owner == unbiased) owner = last_owner_;
  if (owner == unbiased) return hold::plain;
  // Of a thread that has ended none is overtaken anywhere: it can be this thread's from here on.
  if (this_thread != nobody && is_gone(owner)) {
    visits_ = 0;
    last_owner_ = unbiased;
    visited_.store(false, std::memory_order_relaxed);
    owner_.store(this_thread, std::memory_order_relaxed);
    return hold::plain;
  }
  if (owner == last_owner_) return hold::plain;
  visited_.store(true, std::memory_order_seq_cst);
  barrier_on_all_threads();
  enter();
  if (++visits_ < most_visits) return hold::visitor;
  // Used by several threads: nobody is favoured any more, and nobody needs the barrier. It stays visited.
  last_owner_ = owner;
  owner_.store(unbiased, std::memory_order_relaxed);
  return hold::plain;
}

}  // namespace gpumem::base
