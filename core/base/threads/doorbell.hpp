// Where one thread sleeps until another rings, or for some time. A ring between two waits is not lost, and
// costs a load where nobody sleeps. Any thread; no heap.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace gpumem::base {

class doorbell {
 public:
  void ring() noexcept {
    rung_.fetch_add(1, std::memory_order_acq_rel);
    wake();
  }
  // For hot paths: only where somebody sleeps, who may miss it and wakes by himself later.
  void ring_sleeper() noexcept {
    if (sleepers_.load(std::memory_order_relaxed) != 0) ring();
  }

  // What to give to wait(): rings from here on end it.
  std::uint32_t rung() const noexcept { return rung_.load(std::memory_order_acquire); }
  void wait(std::uint32_t since, std::uint64_t at_most_ns) noexcept {
    int const saved = errno;
    timespec const time{.tv_sec = static_cast<time_t>(at_most_ns / 1'000'000'000),
                        .tv_nsec = static_cast<long>(at_most_ns % 1'000'000'000)};
    sleepers_.fetch_add(1, std::memory_order_acq_rel);
    ::syscall(SYS_futex, &rung_, FUTEX_WAIT_PRIVATE, since, &time, nullptr, 0);
    sleepers_.fetch_sub(1, std::memory_order_acq_rel);
    errno = saved;
  }

 private:
  void wake() noexcept {
    int const saved = errno;
    ::syscall(SYS_futex, &rung_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    errno = saved;
  }

  std::atomic<std::uint32_t> rung_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace gpumem::base
