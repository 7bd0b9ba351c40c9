// fork around CUDA's start: "before": parent and child each start CUDA after the fork and both work; "after":
// the parent has started it, so the child's calls are refused by the driver and the parent goes on; "vfork":
// the child only executes another program; "spawn": ten children one after the other, none of which uses
// CUDA; "daemon": the work is done by a grandchild in a session of its own; "posix_spawn": a child made so
// works as well. Run plain and preloaded by the integration and GPU tests. One thread.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

void work(const char* who, int blocks) {
  checksum sum;
  for (int round = 0; round < blocks; ++round) {
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, 4096u << (round % 8)));
    REQUIRE(cudaMemset(block, round, 4096u << (round % 8)));
    verify_fill(block, 4096u << (round % 8), static_cast<unsigned char>(round), sum);
    REQUIRE(counted_free(block));
  }
  std::printf("%s checksum %016llx\n", who, (unsigned long long)sum.value());
  std::fflush(stdout);
}

// Waits for the child and prints how it ended.
void collect(pid_t child) {
  int status = 0;
  REQUIRE_CODE(waitpid(child, &status, 0), child);
  std::printf("child ended: exited %d code %d\n", WIFEXITED(status),
              WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "before";
  std::fflush(stdout);
  if (std::strcmp(mode, "before") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      work("child", 24);
      counts.print();
      std::exit(5);
    }
    collect(child);
    work("parent", 16);
  } else if (std::strcmp(mode, "after") == 0) {
    work("parent", 8);
    const pid_t child = fork();
    if (child == 0) {
      void* block = nullptr;
      std::printf("child cudaMalloc code %d\n", static_cast<int>(cudaMalloc(&block, 4096)));
      std::printf("child cudaFree code %d\n", static_cast<int>(cudaFree(nullptr)));
      std::fflush(stdout);
      _exit(6);
    }
    collect(child);
    work("parent", 8);
  } else if (std::strcmp(mode, "vfork") == 0) {
    work("parent", 8);
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", static_cast<char*>(nullptr));
      _exit(127);
    }
    collect(child);
    work("parent", 8);
  } else if (std::strcmp(mode, "daemon") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      setsid();
      const pid_t grandchild = fork();
      if (grandchild != 0) {
        int status = 0;
        waitpid(grandchild, &status, 0);  // so that its output comes before the test ends
        _exit(WEXITSTATUS(status));
      }
      close(STDIN_FILENO);
      work("daemon", 24);
      counts.print();
      std::exit(9);
    }
    collect(child);
    return 0;  // it has made no CUDA call, so it has no counts
  } else if (std::strcmp(mode, "posix_spawn") == 0) {
    work("parent", 8);
    char before[] = "before";
    char* arguments[] = {argv[0], before, nullptr};
    pid_t child = 0;
    std::fflush(stdout);
    REQUIRE(posix_spawn(&child, argv[0], nullptr, nullptr, arguments, environ));
    collect(child);
    work("parent", 8);
  } else {
    work("parent", 8);
    for (int round = 0; round < 10; ++round) {
      const pid_t child = fork();
      if (child == 0) _exit(round);
      collect(child);
    }
    work("parent", 8);
  }
  counts.print();
}
