// See high_fd.hpp.
#include "core/base/files/high_fd.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/small_file.hpp"

namespace gpumem::base {

namespace {

constexpr int first_of_the_program = 3;
constexpr int smallest_table = 64;  // of Linux, on 64 bits
constexpr int most_tried = 1024;

// How many descriptors the table has room for as it is.
int table_size() noexcept {
  char text[2048];
  if (!read_small_file("/proc/self/status", text)) return smallest_table;
  char const* const line = std::strstr(text, "\nFDSize:");
  return line != nullptr ? std::atoi(line + std::strlen("\nFDSize:")) : smallest_table;
}

// Numbers from here on are refused.
int limit() noexcept {
  rlimit allowed{};
  if (::getrlimit(RLIMIT_NOFILE, &allowed) != 0) return smallest_table;
  return static_cast<int>(std::min<rlim_t>(allowed.rlim_cur, 1 << 30));
}

}  // namespace

int copy_to_high_fd(int descriptor) noexcept {
  int const saved = errno;
  int number = std::min(table_size(), limit()) - 1;
  for (int tried = 0; tried < most_tried && number > first_of_the_program; ++tried, --number) {
    if (::fcntl(number, F_GETFD) < 0) break;
  }
  int const copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, std::max(number, first_of_the_program));
  errno = saved;
  return copy;
}

}  // namespace gpumem::base
