// See line_writer.hpp. Only system calls are made here, so it also serves in a forked child.
#include "core/base/log/line_writer.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/threads/uncancelled.hpp"

namespace gpumem::base {
namespace {

struct errno_kept {
  int const saved = errno;
  ~errno_kept() { errno = saved; }
};

// A reader that went away, or a limit on file sizes, raises a signal whose default ends the program. It was
// not the program that wrote, so it must not see that signal: blocked in this thread, and taken back if it
// came.
class signals_of_writing_held {
 public:
  signals_of_writing_held() noexcept {
    sigemptyset(&ours_);
    sigaddset(&ours_, SIGPIPE);
    sigaddset(&ours_, SIGXFSZ);
    sigpending(&before_);
    pthread_sigmask(SIG_BLOCK, &ours_, &mask_);
  }
  signals_of_writing_held(signals_of_writing_held const&) = delete;
  signals_of_writing_held& operator=(signals_of_writing_held const&) = delete;
  ~signals_of_writing_held() {
    sigset_t raised = ours_;
    if (sigismember(&before_, SIGPIPE) == 1) sigdelset(&raised, SIGPIPE);
    if (sigismember(&before_, SIGXFSZ) == 1) sigdelset(&raised, SIGXFSZ);
    timespec const at_once{};
    while (sigtimedwait(&raised, nullptr, &at_once) > 0 || errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

 private:
  sigset_t ours_{}, before_{}, mask_{};
};

}  // namespace

bool write_all(int descriptor, std::string_view text) noexcept {
  return write_all_or_errno(descriptor, text) == 0;
}

int write_all_or_errno(int descriptor, std::string_view text) noexcept {
  errno_kept const kept;
  uncancelled const whole;
  signals_of_writing_held const held;
  int waits_left = 10;
  while (!text.empty()) {
    ssize_t const written = ::write(descriptor, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EINTR) {
      continue;
    } else if (written < 0 && errno == EAGAIN && waits_left-- > 0) {
      pollfd ready{descriptor, POLLOUT, 0};
      ::poll(&ready, 1, 100);
    } else {
      return written < 0 ? errno : EIO;
    }
  }
  return 0;
}

line_writer& line_writer::operator<<(std::string_view text) noexcept {
  while (!text.empty()) {
    if (used_ == sizeof buffer_) flush();
    std::size_t const room = sizeof buffer_ - used_;
    std::size_t const part = text.size() < room ? text.size() : room;
    std::memcpy(buffer_ + used_, text.data(), part);
    used_ += part;
    text.remove_prefix(part);
  }
  return *this;
}

line_writer& line_writer::operator<<(std::uint64_t number) noexcept {
  char digits[20];
  std::size_t first = sizeof digits;
  do {
    digits[--first] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return *this << std::string_view(digits + first, sizeof digits - first);
}

line_writer& line_writer::operator<<(std::int64_t number) noexcept {
  if (number >= 0) return *this << static_cast<std::uint64_t>(number);
  return *this << '-' << (~static_cast<std::uint64_t>(number) + 1);
}

bool line_writer::flush() noexcept {
  good_ = write_all(descriptor_, std::string_view(buffer_, used_)) && good_;
  used_ = 0;
  return good_;
}

}  // namespace gpumem::base
