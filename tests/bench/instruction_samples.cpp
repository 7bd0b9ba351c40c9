// Where a program's threads are, once in a millisecond of processor time: for machines without perf, such as
// those with a GPU. Preloaded behind gpumem by where_time_goes.py; what a signal handler finds is written at
// the end of the process to the file that GPUMEM_BENCH_SAMPLES names. Any thread; no heap.
#include <link.h>
#include <sys/time.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace {

std::array<std::atomic<std::uintptr_t>, 1 << 20> seen;
std::atomic<std::size_t> count{0};

std::uintptr_t instruction(void* context) {
  auto const& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#else
  return machine.pc;
#endif
}

void on_tick(int, siginfo_t*, void* context) {
  std::size_t const at = count.fetch_add(1, std::memory_order_relaxed);
  if (at < seen.size()) seen[at].store(instruction(context), std::memory_order_relaxed);
}

void tick_every(int microseconds) {
  itimerval const period{{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_PROF, &period, nullptr);
}

// Lines of "object BASE BEGIN END PATH", for each part that holds code, and "at ADDRESS".
int write_object(dl_phdr_info* object, std::size_t, void* file) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    auto const& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    auto const begin = object->dlpi_addr + part.p_vaddr;
    char const* const path = object->dlpi_name[0] != '\0' ? object->dlpi_name : "/proc/self/exe";
    std::fprintf(static_cast<std::FILE*>(file), "object %lx %lx %lx %s\n", object->dlpi_addr, begin,
                 begin + part.p_memsz, path);
  }
  return 0;
}

[[gnu::constructor]] void begin() {
  if (std::getenv("GPUMEM_BENCH_SAMPLES") == nullptr) return;
  struct sigaction action = {};
  action.sa_sigaction = on_tick;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  tick_every(1000);
}

[[gnu::destructor]] void end() {
  char const* const path = std::getenv("GPUMEM_BENCH_SAMPLES");
  if (path == nullptr) return;
  tick_every(0);
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return;
  dl_iterate_phdr(write_object, file);
  std::size_t const found = std::min(count.load(), seen.size());
  for (std::size_t i = 0; i < found; ++i) std::fprintf(file, "at %lx\n", seen[i].load());
  std::fclose(file);
}

}  // namespace
