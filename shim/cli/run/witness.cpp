// See witness.hpp.
#include "shim/cli/run/witness.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/clock.hpp"

namespace gpumem::cli {
namespace {

// The kernel gives a group its signal one process after the other.
constexpr std::uint64_t moment_ns = 10'000'000;
// A witness that is not given a processor for so long has no say.
constexpr std::uint64_t patience_ns = 2'000'000'000;

// False while it has a signal that it did not note yet: on a busy machine that may take it longer than a
// moment.
bool has_noted_all(pid_t process) noexcept {
  char path[64], text[4096];
  std::snprintf(path, sizeof path, "/proc/%d/status", static_cast<int>(process));
  int const file = ::open(path, O_RDONLY | O_CLOEXEC);
  ssize_t const length = file < 0 ? -1 : ::read(file, text, sizeof text - 1);
  if (file >= 0) ::close(file);
  if (length <= 0) return true;
  text[length] = '\0';
  char const* const state = std::strstr(text, "State:\t");
  char const* const pending = std::strstr(text, "ShdPnd:\t");
  if (state == nullptr || pending == nullptr) return true;
  return state[7] == 'S' && std::strtoull(pending + 8, nullptr, 16) == 0;
}

// Lives as long as its parent, holds nothing open but the pipe, and obeys no signal that can be refused.
[[noreturn]] void sit(sigset_t const& watched, int pipe, pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  for (int const standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(standard);
  for (;;) {
    int const number = ::sigwaitinfo(&watched, nullptr);
    auto const note = static_cast<unsigned char>(number);
    if (number > 0 && ::write(pipe, &note, 1) != 1) ::_exit(0);
  }
}

}  // namespace

witness::witness(sigset_t const& watched) noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  pid_t const parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) sit(watched, ends[1], parent);
  ::close(ends[1]);
  notes_ = ends[0];
}

witness::~witness() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  if (notes_ >= 0) ::close(notes_);
}

bool witness::saw(int number) noexcept {
  if (process_ <= 0) return false;
  std::uint64_t const begin = base::now_ns();
  for (bool last = false;;) {
    std::array<unsigned char, 64> notes{};
    ssize_t const got = ::read(notes_, notes.data(), notes.size());
    std::uint64_t const now = base::now_ns();
    for (ssize_t i = 0; i < got; ++i) {
      auto const note = notes[static_cast<std::size_t>(i)];
      if (note < seen_ns_.size()) seen_ns_[note] = now;
    }
    if (got > 0) continue;
    if (got == 0 || last || now >= begin + patience_ns) break;
    last = now >= begin + moment_ns && has_noted_all(process_);
    pollfd wait{notes_, POLLIN, 0};
    if (!last) ::poll(&wait, 1, static_cast<int>(moment_ns / 1'000'000) + 1);
  }
  // Older than that, ours of the same sending was one with another: it says nothing of this one.
  auto& seen = seen_ns_[static_cast<std::size_t>(number)];
  bool const found = seen != 0 && base::now_ns() - seen < 10 * moment_ns;
  seen = 0;
  return found;
}

}  // namespace gpumem::cli
