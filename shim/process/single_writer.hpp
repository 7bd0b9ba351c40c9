// The report is written by one of the threads that come to an end of the process. Others may be there with
// it: before 2.41 libc lets threads that call exit run the handlers side by side, and whoever is through
// first, or calls _exit, ends all. So they wait for the one that writes, for a bounded time. Called at ends
// of the process, on any thread, in signal handlers too; it must never be waited for by the thread that
// writes, nor by one that was interrupted within the library and may hold what the writer waits for.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "core/base/clock.hpp"
#include "core/base/threads/backoff.hpp"
#include "core/base/threads/sleep.hpp"

namespace gpumem::shim::process {

class single_writer {
 public:
  // True: the caller is the one that writes, and says done() or gives up. False: another one has written; or
  // it is the caller's own turn already, or another's and it must not wait.
  bool take_turn(bool may_wait) noexcept {
    pid_t const own = own_number();
    for (;;) {
      pid_t now = nobody;
      if (writer_.compare_exchange_strong(now, own, std::memory_order_acq_rel)) return true;
      if (now == own || !may_wait) return false;
      if (now == is_through) return leave_time_to_end(), false;
      if (!comes_soon([&] { return writer_.load(std::memory_order_acquire) != now; })) return false;
    }
  }
  void done() noexcept { writer_.store(is_through, std::memory_order_release); }
  void give_up() noexcept { writer_.store(nobody, std::memory_order_release); }
  bool is_done() const noexcept { return writer_.load(std::memory_order_acquire) == is_through; }

  // One that will run exit handlers. The first few are let in, as by libc, so that a handler may wait for a
  // thread that calls exit; others come when all is written.
  void enter() noexcept {
    if (entered_.fetch_add(1, std::memory_order_relaxed) < let_in) return;
    comes_soon([this] { return is_done(); });
    leave_time_to_end();
  }
  static constexpr int let_in = 2;

  // What others do here is the parent's.
  void reset_in_child() noexcept {
    writer_.store(nobody, std::memory_order_relaxed);
    entered_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr pid_t nobody = 0, is_through = -1;
  static constexpr std::uint64_t longest_wait_ns = 10'000'000'000, time_to_end_ns = 100'000'000;

  // A writer that hangs, at a pipe that nobody reads, holds nobody for ever.
  template <typename Event>
  static bool comes_soon(Event event) noexcept {
    std::uint64_t const until = base::now_ns() + longest_wait_ns;
    bool came = false;
    base::wait_until([&] { return (came = event()) || base::now_ns() > until; });
    return came;
  }

  // Who is through ends the process, with the code that it wrote.
  static void leave_time_to_end() noexcept { base::sleep_for(time_to_end_ns); }
  static pid_t own_number() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

  std::atomic<pid_t> writer_ = nobody;
  std::atomic<int> entered_ = 0;
};

}  // namespace gpumem::shim::process
