// See wait_for_child.hpp.
#include "shim/cli/wait_for_child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace gpumem::cli {
namespace {

constexpr int handed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

std::vector<char*> pointers_to(std::vector<std::string> const& items) {
  std::vector<char*> pointers;
  for (auto const& item : items) pointers.push_back(const_cast<char*>(item.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct signal_state {
  sigset_t mask{};
  struct sigaction child_ended {};
};

[[noreturn]] void become(std::vector<char*> const& command, std::vector<char*> const& environment,
                         signal_state const& before, int error_pipe) {
  ::sigaction(SIGCHLD, &before.child_ended, nullptr);
  ::sigprocmask(SIG_SETMASK, &before.mask, nullptr);
  ::execvpe(command[0], command.data(), environment.data());
  int const reason = errno;
  [[maybe_unused]] ssize_t const told = ::write(error_pipe, &reason, sizeof reason);
  ::_exit(127);
}

int wait_and_hand_on(pid_t child, sigset_t const& waited_for) {
  for (;;) {
    siginfo_t info{};
    int const number = ::sigwaitinfo(&waited_for, &info);
    if (number == SIGCHLD) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) == child) return status;
    } else if (number > 0 && info.si_code != SI_KERNEL) {
      // What the terminal sends (^C) goes to the whole group: the program has it already.
      ::kill(child, number);
    }
  }
}

}  // namespace

child_result run_and_wait(std::vector<std::string> const& command,
                          std::vector<std::string> const& environment) {
  child_result result;
  std::vector<char*> const words = pointers_to(command), variables = pointers_to(environment);
  signal_state before;
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;  // if it came ignored, waitpid would find no child
  ::sigaction(SIGCHLD, &plain, &before.child_ended);
  sigset_t waited_for;
  ::sigemptyset(&waited_for);
  ::sigaddset(&waited_for, SIGCHLD);
  for (int number : handed_on) ::sigaddset(&waited_for, number);
  ::sigprocmask(SIG_BLOCK, &waited_for, &before.mask);

  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0 || (result.pid = ::fork()) < 0) {
    result.exec_error = errno;
    return result;
  }
  if (result.pid == 0) become(words, variables, before, ends[1]);
  ::close(ends[1]);
  int reason = 0;
  if (::read(ends[0], &reason, sizeof reason) == sizeof reason) result.exec_error = reason;
  ::close(ends[0]);
  result.status = wait_and_hand_on(result.pid, waited_for);
  return result;
}

}  // namespace gpumem::cli
