// Every way a process ends, by argument: return, exit, _exit, quick_exit, abort, exec (into this program with
// "return"), kill (SIGKILL), segv, thread (exit called by another thread while main works), static (a static
// destructor frees device memory), closed (stderr is closed before the end, as coreutils do), hang (waits to
// be killed). Does 10 allocations first and prints its counts before it ends. Run plain, preloaded and under
// `gpumem run` by the integration and GPU tests.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

struct frees_at_the_end {
  void* block = nullptr;
  // The driver may be going down already: any code is fine, a crash is not.
  ~frees_at_the_end() {
    if (block != nullptr) cudaFree(block);
  }
};
frees_at_the_end keeper;

}  // namespace

int main(int argc, char** argv) {
  using namespace programs;
  const char* way = argc > 1 ? argv[1] : "return";
  for (int round = 0; round < 10; ++round) {
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, 1u << (10 + round)));
    if (round % 2 == 0) REQUIRE(counted_free(block));
  }
  if (std::strcmp(way, "static") == 0) {
    REQUIRE(counted_malloc(&keeper.block,
                           1 << 20));  // its free will not leave the runtime, which is unloading then
  }
  std::printf("ends by %s\n", way);
  counts.print();

  if (std::strcmp(way, "exit") == 0) std::exit(7);
  if (std::strcmp(way, "_exit") == 0) _exit(8);
  if (std::strcmp(way, "_Exit") == 0) std::_Exit(10);
  if (std::strcmp(way, "quick_exit") == 0) std::quick_exit(9);
  if (std::strcmp(way, "abort") == 0) std::abort();
  if (std::strcmp(way, "segv") == 0) raise(SIGSEGV);
  if (std::strcmp(way, "kill") == 0) raise(SIGKILL);
  if (std::strcmp(way, "hang") == 0) {
    for (;;) pause();
  }
  if (std::strcmp(way, "exec") == 0) {
    execl(argv[0], argv[0], "return", static_cast<char*>(nullptr));
    return 126;
  }
  if (std::strcmp(way, "thread") == 0) {
    std::thread([] { std::exit(11); }).join();
  }
  if (std::strcmp(way, "closed") == 0) {
    close(STDERR_FILENO);
    close(STDOUT_FILENO);
  }
  return way[0] == 'r' ? 0 : 12;
}
