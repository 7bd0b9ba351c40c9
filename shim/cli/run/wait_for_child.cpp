// See wait_for_child.hpp.
#include "shim/cli/run/wait_for_child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "shim/cli/run/witness.hpp"

namespace gpumem::cli {
namespace {

// What a person or a batch system may send; real-time signals as well.
constexpr int handed_on[] = {SIGHUP,  SIGINT,  SIGQUIT,   SIGABRT, SIGUSR1, SIGUSR2,
                             SIGALRM, SIGTERM, SIGCONT,   SIGTSTP, SIGURG,  SIGXCPU,
                             SIGXFSZ, SIGPROF, SIGVTALRM, SIGIO,   SIGPWR,  SIGWINCH};

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

// Whoever kills this process for good means the program: it does not stay behind.
[[noreturn]] void become(std::vector<char*> const& command, std::vector<char*> const& environment,
                         signal_state const& before, int error_pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::sigaction(SIGCHLD, &before.child_ended, nullptr);
  ::sigprocmask(SIG_SETMASK, &before.mask, nullptr);
  ::execvpe(command[0], command.data(), environment.data());
  int const reason = errno;
  [[maybe_unused]] ssize_t const told = ::write(error_pipe, &reason, sizeof reason);
  ::_exit(127);
}

// As it would be without us: the shell that waits for this process sees it stop. By the signal's own action,
// which the kernel leaves out where nobody could continue it.
void stop_too() {
  sigset_t only, before;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGTSTP);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &only, &before);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

// Several of one number that come together are one, as they are to a process that is slow to look.
void drop_echoes(int number) {
  sigset_t same;
  ::sigemptyset(&same);
  ::sigaddset(&same, number);
  timespec const at_once{};
  while (::sigtimedwait(&same, nullptr, &at_once) == number) {
  }
}

// A signal reaches the program once: what went to the whole group, as from a terminal (^C), it has already.
void hand_on(siginfo_t const& info, pid_t child, witness& group) {
  int const number = info.si_signo;
  bool const to_all = group.saw(number) || info.si_code == SI_KERNEL;
  if (number < SIGRTMIN) drop_echoes(number);
  if (!to_all && info.si_code == SI_QUEUE) {
    ::sigqueue(child, number, info.si_value);
  } else if (!to_all) {
    ::kill(child, number);
  }
  if (number == SIGTSTP) stop_too();
}

int wait_and_hand_on(pid_t child, sigset_t const& waited_for, witness& group) {
  for (;;) {
    siginfo_t info{};
    int const number = ::sigwaitinfo(&waited_for, &info);
    if (number == SIGCHLD) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) == child) return status;
    } else if (number > 0) {
      hand_on(info, child, group);
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
  for (int number : handed_on) ::sigaddset(&waited_for, number);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) ::sigaddset(&waited_for, number);
  sigset_t blocked = waited_for;
  ::sigaddset(&blocked, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &blocked, &before.mask);

  int ends[2];
  pid_t const parent = ::getpid();
  if (::pipe2(ends, O_CLOEXEC) != 0 || (result.pid = ::fork()) < 0) {
    result.exec_error = errno;
    return result;
  }
  if (result.pid == 0) become(words, variables, before, ends[1], parent);
  ::close(ends[1]);
  witness group(waited_for);
  int reason = 0;
  if (::read(ends[0], &reason, sizeof reason) == sizeof reason) result.exec_error = reason;
  ::close(ends[0]);
  result.status = wait_and_hand_on(result.pid, blocked, group);
  return result;
}

}  // namespace gpumem::cli
