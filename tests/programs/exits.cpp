// Every way a process ends, by argument: return, exit, _exit, quick_exit, abort, exec (into this program with
// "return"), kill (SIGKILL), segv, hang (waits to be killed), and those that main() has a line on. Does 10
// allocations first and prints its counts before it ends. Run plain, preloaded and under `gpumem run` by the
// integration and GPU tests.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
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

// Exit handlers run last made first; cudart makes its own at the first CUDA call.
void* for_handlers[2];
void handler_made_before() {
  std::printf("handler made before CUDA: free %d\n", cudaFree(for_handlers[0]));
  std::fflush(stdout);
}
void handler_made_after() {
  std::printf("handler made after CUDA: free %d\n", programs::counted_free(for_handlers[1]));
  std::fflush(stdout);
}

// What a thread is doing when the process ends may get any code, and must not crash or hang.
void allocate_for_ever(std::atomic<int>& started) {
  for (int round = 0;; ++round) {
    void* block = nullptr;
    if (cudaMalloc(&block, 1u << (8 + round % 14)) == cudaSuccess) cudaFree(block);
    if (round == 50) ++started;
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace programs;
  const char* way = argc > 1 ? argv[1] : "return";
  const bool handlers = std::strcmp(way, "handlers") == 0;
  if (handlers)
    std::atexit(handler_made_before);  // before and after the first CUDA call, each frees device memory
  for (int round = 0; round < 10; ++round) {
    void* block = nullptr;
    REQUIRE(counted_malloc(&block, 1u << (10 + round)));
    if (round % 2 == 0) REQUIRE(counted_free(block));
  }
  // a static destructor frees device memory
  if (std::strcmp(way, "static") == 0) {
    REQUIRE(counted_malloc(&keeper.block,
                           1 << 20));  // its free will not leave the runtime, which is unloading then
  }
  if (handlers) {
    std::atexit(handler_made_after);
    for (void*& block : for_handlers) REQUIRE(counted_malloc(&block, 1 << 20));
  }
  std::printf("ends by %s\n", way);
  if (!handlers) counts.print();
  if (handlers) {
    ++counts.frees;  // that of the later handler, which runs while CUDA is still up
    counts.print();
    --counts.frees;
  }

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
  // exit called by another thread while main works
  if (std::strcmp(way, "thread") == 0) {
    std::thread([] { std::exit(11); }).join();
  }
  // threads go on allocating while main returns
  if (std::strcmp(way, "workers") == 0) {
    static std::atomic<int> started{0};
    for (int i = 0; i < 4; ++i) std::thread(allocate_for_ever, std::ref(started)).detach();
    while (started < 4) std::this_thread::yield();
    return 13;
  }
  // together, _together, quick_together, exec_together: 64 threads end it at once, as those of a program do
  // that runs out of memory; of the last half exec
  if (std::strstr(way, "together") != nullptr) {
    std::fflush(stdout);
    static std::atomic<int> waiting{64};
    for (int i = 0; i < 64; ++i) {
      std::thread([way, i, program = argv[0]] {
        for (--waiting; waiting > 0;) std::this_thread::yield();
        if (way[0] == '_') _exit(16);
        if (way[0] == 'q') std::quick_exit(17);
        if (way[0] == 'e' && i % 2 != 0) execl(program, program, "return", static_cast<char*>(nullptr));
        std::exit(15);
      }).detach();
    }
    for (;;) pause();
  }
  // an exit handler joins a thread that calls exit
  if (std::strcmp(way, "joined") == 0) {
    std::fflush(stdout);
    std::atexit([] { std::thread([] { std::exit(18); }).join(); });
    std::exit(19);
  }
  // it ends as a thread, another one goes on
  if (std::strcmp(way, "main") == 0) {
    std::thread([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }).detach();
    pthread_exit(nullptr);
  }
  // past every handler, as Go's runtime does
  if (std::strcmp(way, "system_call") == 0) {
    std::fflush(stdout);
    syscall(SYS_exit_group, 20);
  }
  // stderr is closed before the end, as coreutils do
  if (std::strcmp(way, "closed") == 0) {
    close(STDERR_FILENO);
    close(STDOUT_FILENO);
  }
  // all but the standard ones name the file of the second argument, with a line in it
  if (std::strcmp(way, "descriptors") == 0) {
    int const file = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int number = 3; number < 1024; ++number) dup2(file, number);
    if (write(file, "mine\n", 5) != 5) return 14;
  }
  return way[0] == 'r' ? 0 : 12;
}
