// That a forked child does not ask libc for the local time, beside a thread of the program's that did.
#include "core/base/local_time.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <thread>

namespace gpumem::base {
namespace {

// libc's lock of the time zone stays taken in the child of a fork beside a thread of the program's that asks.
TEST(local_time, a_child_of_a_fork_beside_a_thread_that_asks_for_the_local_time) {
  std::atomic<bool> over{false}, asks{false};
  std::thread asking([&] {
    for (tm local{}; !over; asks = true) {
      time_t const now = ::time(nullptr);
      ::localtime_r(&now, &local);
    }
  });
  while (!asks) std::this_thread::yield();
  for (int turn = 0; turn < 100 && !HasFailure(); ++turn) {
    pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(5);  // kills a child that waits
      no_local_time_in_child();
      ::_exit(utc_offset_ns() == 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "turn " << turn << ", status " << status;
  }
  over = true;
  asking.join();
}

}  // namespace
}  // namespace gpumem::base
