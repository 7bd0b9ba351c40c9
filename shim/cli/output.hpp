// Writes what a verb was asked for to standard output. Whether it got there decides the exit code: a report
// that did not fit on the disk is a failure. One thread.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "core/base/log/log.hpp"

namespace gpumem::cli {

inline constexpr int exit_not_written = 3;

// False, and a line on stderr, when it could not be written. A reader that went away (| head) has what it
// wanted.
inline bool print(std::string_view text) {
  while (!text.empty()) {
    ssize_t const written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    if (written >= 0 || errno == EINTR) continue;
    if (errno == EPIPE) return true;
    pollfd wait{STDOUT_FILENO, POLLOUT, 0};
    if (errno == EAGAIN && ::poll(&wait, 1, -1) >= 0) continue;
    base::log_line(base::log_level::error,
                   "standard output cannot be written: " + std::string(std::strerror(errno)));
    return false;
  }
  return true;
}

}  // namespace gpumem::cli
