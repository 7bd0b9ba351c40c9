// The copy lies high in the table as it is, which does not grow for it.
#include "core/base/files/high_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace gpumem::base {
namespace {

int table_size() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int size = 0;
    if (word == "FDSize:" && status >> size) return size;
  }
  return 0;
}

TEST(high_fd, takes_the_highest_free_number) {
  int const size = table_size();
  int const first = copy_to_high_fd(STDERR_FILENO);
  int const second = copy_to_high_fd(STDERR_FILENO);
  EXPECT_EQ(first, size - 1);
  EXPECT_EQ(second, size - 2);
  EXPECT_EQ(table_size(), size);
  EXPECT_EQ(fcntl(first, F_GETFD), FD_CLOEXEC);
  close(first);
  close(second);
}

TEST(high_fd, stays_below_the_limit_of_the_process) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit const few{20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  int const copy = copy_to_high_fd(STDERR_FILENO);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(copy, 19);
  close(copy);
}

TEST(high_fd, of_a_closed_descriptor_there_is_none) {
  errno = 7;
  EXPECT_EQ(copy_to_high_fd(60), -1);
  EXPECT_EQ(errno, 7);
}

}  // namespace
}  // namespace gpumem::base
