// sleep_for: at least as long as it says, where a sandbox forbids the call too; errno stays, and a cancelled
// thread sleeps on.
#include "core/base/threads/sleep.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <thread>

#include "core/base/clock.hpp"

namespace gpumem::base {
namespace {

constexpr std::uint64_t some_time = 3'000'000;

bool sleeps_long_enough() noexcept {
  errno = 77;
  std::uint64_t const begin = now_ns();
  sleep_for(some_time);
  return now_ns() - begin >= some_time && errno == 77;
}

TEST(sleep, is_no_shorter_than_it_says) {
  EXPECT_TRUE(sleeps_long_enough());
}

TEST(sleep, of_a_cancelled_thread_goes_on) {
  bool whole = false;
  std::thread thread([&] {
    pthread_cancel(pthread_self());
    whole = sleeps_long_enough();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  });
  thread.join();
  EXPECT_TRUE(whole);
}

[[noreturn]] void sleep_in_a_sandbox() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{static_cast<unsigned short>(std::size(filter)), filter};
  bool const forbidden = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  ::_exit(!forbidden || sleeps_long_enough() ? 3 : 4);
}

TEST(sleep, in_a_sandbox_that_forbids_it) {
  EXPECT_EXIT(sleep_in_a_sandbox(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace gpumem::base
