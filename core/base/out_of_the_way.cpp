// See out_of_the_way.hpp.
#include "core/base/out_of_the_way.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace gpumem::base {

namespace {

constexpr int first_of_the_program = 3;
constexpr int smallest_table = 64;  // of Linux, on 64 bits

// How many descriptors the table has room for as it is.
int table_size() noexcept {
  int const file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return smallest_table;
  char text[2048];
  ssize_t const length = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (length <= 0) return smallest_table;
  text[length] = '\0';
  char const* const line = std::strstr(text, "\nFDSize:");
  return line != nullptr ? std::atoi(line + std::strlen("\nFDSize:")) : smallest_table;
}

}  // namespace

int copy_out_of_the_way(int descriptor) noexcept {
  int const saved = errno;
  int copy = -1;
  for (int number = table_size() - 1; copy < 0 && number >= first_of_the_program; --number) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, number);
    if (copy < 0 && errno != EINVAL) break;  // EINVAL: above the process's limit
  }
  errno = saved;
  return copy;
}

}  // namespace gpumem::base
