// See line_writer.hpp. Only system calls are made here, so it also serves in a forked child.
#include "core/base/log/line_writer.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/clock.hpp"
#include "core/base/files/file_identity.hpp"
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

// Where a write may wait for a reader: a pipe or a terminal is opened once more, so that no write of ours
// does, while those of the program's do as before. What is not, as a socket, or a device, of which an open is
// more than that, is asked before each write of so few bytes that they fit where it says that some do.
class bounded_output {
 public:
  bounded_output(int descriptor, std::size_t bytes, std::uint64_t patience_ns) noexcept
      : descriptor_(descriptor), patience_ns_(patience_ns) {
    auto const it = file_identity::of(descriptor);
    waited_for_ = it.known && !S_ISREG(it.mode) && patience_ns != for_ever_ns;
    if (!waited_for_) return;
    bool const opens = S_ISFIFO(it.mode) ? bytes > PIPE_BUF : ::isatty(descriptor) == 1;
    if (!opens) return;
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    opened_ = ::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
  bounded_output(bounded_output const&) = delete;
  bounded_output& operator=(bounded_output const&) = delete;
  ~bounded_output() {
    if (opened_ >= 0) ::close(opened_);
  }

  // As ::write; ETIMEDOUT when nobody reads.
  ssize_t write(std::string_view text) noexcept {
    if (waited_for_ && opened_ < 0) {
      if (!has_room()) return errno = ETIMEDOUT, -1;
      text = text.substr(0, PIPE_BUF);
    }
    for (;;) {
      ssize_t const written = ::write(opened_ >= 0 ? opened_ : descriptor_, text.data(), text.size());
      if (written >= 0 || errno != EAGAIN) return written;
      if (!has_room()) return errno = ETIMEDOUT, -1;
    }
  }

 private:
  bool has_room() const noexcept {
    std::uint64_t const begin = now_ns();
    for (;;) {
      pollfd ready{opened_ >= 0 ? opened_ : descriptor_, POLLOUT, 0};
      std::uint64_t const waited = now_ns() - begin;
      std::uint64_t const left_ms = waited < patience_ns_ ? (patience_ns_ - waited) / 1'000'000 : 0;
      int const found = ::poll(&ready, 1, static_cast<int>(std::min<std::uint64_t>(left_ms, 100)));
      if (found > 0 || (found < 0 && errno != EINTR)) return true;  // the write says what is wrong
      if (waited >= patience_ns_) return false;
    }
  }

  int const descriptor_;
  std::uint64_t const patience_ns_;
  int opened_ = -1;
  bool waited_for_ = false;
};

}  // namespace

bool write_all(int descriptor, std::string_view text, std::uint64_t patience_ns) noexcept {
  return write_all_or_errno(descriptor, text, patience_ns) == 0;
}

int write_all_or_errno(int descriptor, std::string_view text, std::uint64_t patience_ns) noexcept {
  errno_kept const kept;
  uncancelled const whole;
  signals_of_writing_held const held;
  bounded_output to(descriptor, text.size(), patience_ns);
  while (!text.empty()) {
    ssize_t const written = to.write(text);
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EINTR) {
      continue;
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
