// Every way to start another program, from a process that uses CUDA: the whole exec family in a forked child,
// posix_spawn, posix_spawnp, system and popen, and an exec that fails. The started program is /bin/echo. Run
// plain and preloaded by the integration and GPU tests. One thread.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

const char* const forms[] = {"execl", "execle", "execlp", "execv", "execvp", "execvpe", "execve", "fexecve"};

void replace(const char* form) {
  char name[] = "echo";
  char* arguments[] = {name, const_cast<char*>(form), nullptr};
  char setting[] = "GIVEN=1";
  char* environment[] = {setting, nullptr};
  char* const none = nullptr;
  const auto is = [form](const char* other) { return std::strcmp(form, other) == 0; };
  if (is("execl")) execl("/bin/echo", name, form, none);
  if (is("execle")) execle("/bin/echo", name, form, none, environment);
  if (is("execlp")) execlp("echo", name, form, none);
  if (is("execv")) execv("/bin/echo", arguments);
  if (is("execvp")) execvp("echo", arguments);
  if (is("execvpe")) execvpe("echo", arguments, environment);
  if (is("execve")) execve("/bin/echo", arguments, environment);
  if (is("fexecve")) fexecve(open("/bin/echo", O_RDONLY | O_CLOEXEC), arguments, environment);
}

[[gnu::noinline]] pid_t start(const char* form, bool light) {
  const pid_t child = light ? vfork() : fork();
  if (child == 0) {
    replace(form);
    _exit(127);
  }
  return child;
}

void collect(const char* form, pid_t child) {
  int status = 0;
  REQUIRE_CODE(waitpid(child, &status, 0), child);
  std::printf("%s: exited %d code %d\n", form, WIFEXITED(status), WEXITSTATUS(status));
  std::fflush(stdout);
}

void work() {
  for (unsigned round = 0; round < 10; ++round) {
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, 1000u << round));
    REQUIRE(counted_free(block));
  }
}

}  // namespace

int main() {
  work();
  std::fflush(stdout);
  for (const char* form : forms) {
    for (bool light : {false, true}) collect(form, start(form, light));
    work();
  }
  char name[] = "echo";
  char word[] = "spawned";
  char* arguments[] = {name, word, nullptr};
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, "/bin/echo", nullptr, nullptr, arguments, environ));
  collect("posix_spawn", child);
  REQUIRE(posix_spawnp(&child, "echo", nullptr, nullptr, arguments, environ));
  collect("posix_spawnp", child);
  REQUIRE(std::system("echo system; exit 3") >> 8 == 3 ? 0 : 1);
  char line[64] = "";
  FILE* pipe = popen("echo popen", "r");
  REQUIRE_CODE(std::fgets(line, sizeof line, pipe) != nullptr, true);
  std::printf("read %s", line);
  REQUIRE(pclose(pipe));
  std::printf("exec of nothing: %d, %s\n", execl("/no/such/file", "file", static_cast<char*>(nullptr)),
              std::strerror(errno));
  work();
  counts.print();
}
