// A CUDA program that does to its own process what its arguments say, in their order; the tests of this
// folder run it plain and preloaded. Prints a line for each act, and its counts before it ends.

//   malloc            ten allocations, written, read and freed; a report counts them
//   thread, threads N the same in N threads of their own, one after the other, which count in places of their
//   own small N           the same in a thread with a stack of N bytes small_exit N      such a thread ends
//   the process handler           the same in a signal handler on a stack of its own chdir, chroot DIR;
//   setuid N; close N; rmdir DIR; gone (the current folder is removed); fork open FILE, write  a data file
//   under the lowest number, and 64 bytes into it limit NAME N      a resource limit, soft and hard seal
//   NUMBER       that system call is refused with EPERM from here on (seccomp) take N            N bytes of
//   host memory, by malloc swap A B          exchanges two names as fast as can be, for a minute at most
//   cancel, cancel_known  a thread is cancelled and makes its first calls then, or has made some before
//   cancel_host       a cancelled thread allocates pinned memory, which is a point of the driver's
//   storm N           N threads are cancelled in the middle of their calls
//   fiber N, fiber_exit N the same on a stack of N bytes that the main thread switches to; there it ends
//   background            a child in a session of its own goes on, and the parent ends at once
//   redirect              standard input, output and error are /dev/null from here on, as a daemon's are
//   exec v|vp|at FILE     executes it with the one argument "executed", and prints why not
//   exec_cancelled FILE   the same by a thread that is cancelled, which an exec is no point of
//   exec_in_handler FILE  a signal handler on a stack of 8 KiB executes it, found by PATH
//   clear, unset          the environment is emptied: the list of variables is dropped; each is taken out
//   set NAME VALUE, drop NAME  a variable
//   kill, _exit N, pause MS
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>

#include "tests/programs/support.hpp"

namespace {

void allocate() {
  using namespace programs;
  for (int round = 0; round < 10; ++round) {
    void* block = nullptr;
    std::size_t const bytes = 4096u << (round % 5);
    unsigned char value = 0;
    REQUIRE(counted_malloc(&block, bytes));
    REQUIRE(cudaMemset(block, round, bytes));
    REQUIRE(cudaMemcpy(&value, block, 1, cudaMemcpyDeviceToHost));
    REQUIRE_CODE(value, round);
    REQUIRE(counted_free(block));
  }
}

void* in_thread(void*) {
  allocate();
  return nullptr;
}

void* ending_thread(void*) {
  _exit(9);
}

void run_thread(std::size_t stack, void* (*body)(void*) = in_thread) {
  pthread_attr_t how;
  pthread_attr_init(&how);
  if (stack != 0) REQUIRE(pthread_attr_setstacksize(&how, stack));
  pthread_t thread;
  int const code = pthread_create(&thread, &how, body, nullptr);
  if (code == 0)
    pthread_join(thread, nullptr);
  else
    std::printf("no thread: %s\n", std::strerror(code));
}

void in_fiber() {
  allocate();
}
void in_ending_fiber() {
  ending_thread(nullptr);
}

void run_fiber(std::size_t size, void (*body)()) {
  constexpr std::size_t guard = 64 << 10;
  auto* const memory =
      static_cast<char*>(mmap(nullptr, guard + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(mprotect(memory + guard, size, PROT_READ | PROT_WRITE));
  ucontext_t back, there;
  REQUIRE(getcontext(&there));
  there.uc_stack.ss_sp = memory + guard;
  there.uc_stack.ss_size = size;
  there.uc_link = &back;
  makecontext(&there, body, 0);
  REQUIRE(swapcontext(&back, &there));
}

void in_handler(int) {
  allocate();
}

void run_handler() {
  stack_t own{};
  own.ss_size = 64 << 10;
  own.ss_sp = std::malloc(own.ss_size);
  sigaltstack(&own, nullptr);
  struct sigaction act {};
  act.sa_handler = in_handler;
  act.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &act, nullptr);
  raise(SIGUSR1);
}

// The cancellation is pending when the calls begin.
void* in_cancelled(void* after) {
  pthread_cleanup_push([](void*) { std::printf("cleaned up\n"); }, nullptr);
  if (after != nullptr) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    allocate();
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
  }
  pthread_cancel(pthread_self());
  for (int round = 0; round < 10; ++round) {  // not counted: a driver may have a point in its own calls
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, 4096u << round));
    REQUIRE(cudaFree(block));
  }
  int before = -1, type = -1;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  REQUIRE_CODE(before, PTHREAD_CANCEL_ENABLE);
  REQUIRE_CODE(type, PTHREAD_CANCEL_DEFERRED);
  pthread_setcancelstate(before, nullptr);
  for (;;) pthread_testcancel();
  pthread_cleanup_pop(0);
  return nullptr;
}

// Whether the thread ends in the call or after it is the driver's affair; that it ends is not.
void* in_pinned(void*) {
  pthread_cleanup_push([](void*) { std::printf("cleaned up\n"); }, nullptr);
  pthread_cancel(pthread_self());
  void* block = nullptr;
  cudaMallocHost(&block, 4096);
  for (;;) pthread_testcancel();
  pthread_cleanup_pop(0);
  return nullptr;
}

void run_cancelled(void* (*body)(void*), bool known = false) {
  pthread_t thread;
  void* result = nullptr;
  REQUIRE(pthread_create(&thread, nullptr, body, known ? &thread : nullptr));
  pthread_join(thread, &result);
  std::printf("joined %s\n", result == PTHREAD_CANCELED ? "cancelled" : "returned");
}

// Its only point is its own, with nothing allocated; counted by nobody, as nobody knows how far it comes.
void* until_cancelled(void*) {
  for (int round = 0;; ++round) {
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, 4096u << (round % 11)));
    REQUIRE(cudaFree(block));
    pthread_testcancel();
  }
}

void run_storm(int threads) {
  int cancelled = 0;
  for (int i = 0; i < threads; ++i) {
    pthread_t thread;
    void* result = nullptr;
    REQUIRE(pthread_create(&thread, nullptr, until_cancelled, nullptr));
    if (i % 4 != 0) usleep(static_cast<useconds_t>(i * 37 % 500));
    REQUIRE(pthread_cancel(thread));
    REQUIRE(pthread_join(thread, &result));
    cancelled += result == PTHREAD_CANCELED ? 1 : 0;
  }
  std::printf("%d cancelled\n", cancelled);
}

void go_into_background() {
  std::fflush(stdout);
  if (fork() != 0) _exit(0);
  setsid();
}

void redirect() {
  int const nothing = open("/dev/null", O_RDWR);
  for (int number = 0; number <= 2; ++number) dup2(nothing, number);
  close(nothing);
}

void run_exec(std::string const& form, char* file) {
  char argument[] = "executed";
  char* arguments[] = {file, argument, nullptr};
  std::fflush(stdout);
  if (form == "v") execv(file, arguments);
  if (form == "vp") execvp(file, arguments);
  if (form == "at") execveat(AT_FDCWD, file, arguments, environ, 0);
  std::printf("not executed: %s\n", std::strerror(errno));
}

void* in_cancelled_exec(void* file) {
  pthread_cancel(pthread_self());
  char argument[] = "executed";
  char* arguments[] = {static_cast<char*>(file), argument, nullptr};
  execv(static_cast<char const*>(file), arguments);
  return nullptr;
}

void run_exec_cancelled(char* file) {
  std::fflush(stdout);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, nullptr, in_cancelled_exec, file));
  pthread_join(thread, nullptr);
  std::printf("not executed\n");
}

char const* executed = "";

void exec_in_handler(int) {
  execlp(executed, executed, static_cast<char*>(nullptr));
}

// On a stack of the size that was long the usual one, with nothing below it.
void run_exec_in_handler(char const* file) {
  constexpr std::size_t size = 8192, guard = 64 << 10;
  auto* const memory =
      static_cast<char*>(mmap(nullptr, guard + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(mprotect(memory + guard, size, PROT_READ | PROT_WRITE));
  stack_t own{};
  own.ss_size = size;
  own.ss_sp = memory + guard;
  REQUIRE(sigaltstack(&own, nullptr));
  struct sigaction act {};
  act.sa_handler = exec_in_handler;
  act.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &act, nullptr);
  executed = file;
  programs::counts.print();
  raise(SIGUSR1);
}

// As Python's os.environ.clear() does.
void unset_all() {
  while (environ != nullptr && *environ != nullptr) {
    std::string const entry = *environ;
    REQUIRE(unsetenv(entry.substr(0, entry.find('=')).c_str()));
  }
}

void set_limit(std::string const& name, long value) {
  std::map<std::string, __rlimit_resource> const names{
      {"as", RLIMIT_AS},       {"nofile", RLIMIT_NOFILE}, {"fsize", RLIMIT_FSIZE},
      {"nproc", RLIMIT_NPROC}, {"cpu", RLIMIT_CPU},       {"memlock", RLIMIT_MEMLOCK},
      {"data", RLIMIT_DATA},   {"stack", RLIMIT_STACK},   {"core", RLIMIT_CORE}};
  rlimit const limit{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  REQUIRE(setrlimit(names.at(name), &limit));
}

[[noreturn]] void swap_for_ever(char const* one, char const* other) {
  for (alarm(60);;) renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
}

void refuse_call(unsigned number) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{std::size(code), code};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) std::_Exit(77);
}

}  // namespace

int main(int argc, char** argv) {
  int file = -1;
  for (int i = 1; i < argc; ++i) {
    std::string const act = argv[i];
    auto const next = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    std::printf("%s\n", act.c_str());
    std::fflush(stdout);
    if (act == "malloc")
      allocate();
    else if (act == "thread")
      run_thread(0);
    else if (act == "threads")
      for (int n = std::stoi(next()); n > 0; --n) run_thread(0);
    else if (act == "small")
      run_thread(std::stoul(next()));
    else if (act == "small_exit")
      run_thread(std::stoul(next()), ending_thread);
    else if (act == "fiber")
      run_fiber(std::stoul(next()), in_fiber);
    else if (act == "fiber_exit")
      run_fiber(std::stoul(next()), in_ending_fiber);
    else if (act == "handler")
      run_handler();
    else if (act == "exec_cancelled")
      run_exec_cancelled(argv[++i]);
    else if (act == "exec_in_handler")
      run_exec_in_handler(argv[++i]);
    else if (act == "background")
      go_into_background();
    else if (act == "redirect")
      redirect();
    else if (act == "exec") {
      std::string const form = next();
      run_exec(form, argv[++i]);
    } else if (act == "executed")
      return 0;
    else if (act == "clear")
      REQUIRE(clearenv());
    else if (act == "unset")
      unset_all();
    else if (act == "set") {
      std::string const name = next();
      REQUIRE(setenv(name.c_str(), next().c_str(), 1));
    } else if (act == "drop")
      REQUIRE(unsetenv(next().c_str()));
    else if (act == "chdir")
      REQUIRE(chdir(next().c_str()));
    else if (act == "chroot")
      REQUIRE(chroot(next().c_str()) | chdir("/"));
    else if (act == "setuid")
      REQUIRE(setuid(static_cast<uid_t>(std::stoul(next()))));
    else if (act == "close")
      REQUIRE(close(std::stoi(next())));
    else if (act == "rmdir")
      REQUIRE(rmdir(next().c_str()));
    else if (act == "gone")
      REQUIRE(rmdir(std::string(getcwd(nullptr, 0)).c_str()));
    else if (act == "open")
      file = open(next().c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600), std::printf("descriptor %d\n", file);
    else if (act == "write")
      REQUIRE_CODE(write(file, std::string(64, 'D').c_str(), 64), 64);
    else if (act == "limit") {
      std::string const name = next();
      set_limit(name, std::stol(next()));
    } else if (act == "seal")
      refuse_call(static_cast<unsigned>(std::stoul(next())));
    else if (act == "cancel")
      run_cancelled(in_cancelled);
    else if (act == "cancel_known")
      run_cancelled(in_cancelled, true);
    else if (act == "cancel_host")
      run_cancelled(in_pinned);
    else if (act == "swap") {
      std::string const one = next();
      swap_for_ever(one.c_str(), next().c_str());
    } else if (act == "storm")
      run_storm(std::stoi(next()));
    else if (act == "take") {
      void* p = std::malloc(std::stoul(next()));
      std::printf("malloc %s\n", p != nullptr ? "gave" : "refused");
    } else if (act == "pause")
      usleep(static_cast<useconds_t>(std::stoul(next())) * 1000);
    else if (act == "fork") {
      if (fork() != 0) {
        int status = 0;
        wait(&status);
        break;
      }
    } else if (act == "kill") {
      programs::counts.print();
      raise(SIGKILL);
    } else if (act == "_exit") {
      programs::counts.print();
      _exit(std::stoi(next()));
    } else
      REQUIRE(1);
  }
  programs::counts.print();
}
