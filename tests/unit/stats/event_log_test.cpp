// What an allocation log owes a program that forks: a child has the parent's memory, but not the thread that
// was about to open a log.
#include "core/stats/events/event_log.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

namespace gpumem::stats {
namespace {

TEST(event_log, a_child_of_a_fork_beside_a_thread_that_opens_one_opens_its_own) {
#if defined(GPUMEM_UNDER_ASAN) || defined(GPUMEM_UNDER_TSAN)
  GTEST_SKIP()
      << "the sanitizer's own allocator keeps a child of a fork beside a thread that allocates waiting";
#endif
  char name[] = "/tmp/gpumem-event-log.XXXXXX";
  std::filesystem::path const folder = ::mkdtemp(name);
  static bool const watched = ::pthread_atfork(nullptr, nullptr, &event_log::forget_in_child) == 0;
  ASSERT_TRUE(watched);
  std::atomic<bool> over{false};
  std::atomic<int> opened{0};
  std::thread opens([&] {
    for (int i = 0; !over; ++i) {
      event_log::open((folder / ("parent." + std::to_string(i % 300))).c_str(), false);
      opened = i + 1;
    }
  });
  while (opened == 0) std::this_thread::yield();
  for (int turn = 0; turn < 40; ++turn) {
    pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(5);  // kills a child that waits
      event_log const* const log = event_log::open((folder / "child.%p").c_str(), false);
      ::_exit(log != nullptr ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "turn " << turn << ", status " << status;
    if (HasFailure()) break;
  }
  over = true;
  opens.join();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gpumem::stats
