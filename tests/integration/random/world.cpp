// See world.hpp.
#include "tests/integration/random/world.hpp"

#include <dirent.h>
#include <execinfo.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace random_program {

void fault(char const* format, ...) {
  if (++faults >= 20) return;
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}

void check(CUresult code, char const* what, CUresult wanted) {
  if (code != wanted) fault("%s: code %d, wanted %d", what, static_cast<int>(code), static_cast<int>(wanted));
}

bool got(CUresult code, char const* what) {
  if (crowded && code == CUDA_ERROR_OUT_OF_MEMORY) {
    ++refusals;
    return false;
  }
  check(code, what);
  return code == CUDA_SUCCESS;
}

// Where a thread is, asked for by last_words.
static void where_it_is(int) {
  static std::atomic_flag talking;
  while (talking.test_and_set()) sched_yield();
  char text[40];
  int const length = std::snprintf(text, sizeof text, "thread %d:\n", static_cast<int>(gettid()));
  [[maybe_unused]] ssize_t const written = write(1, text, static_cast<std::size_t>(length));
  void* frames[40];
  backtrace_symbols_fd(frames, backtrace(frames, 40), 1);
  talking.clear();
}

// Of all threads: one that hangs can still take a signal.
static void every_thread_says_where() {
  DIR* const threads = opendir("/proc/self/task");
  while (dirent const* each = threads != nullptr ? readdir(threads) : nullptr) {
    int const thread = std::atoi(each->d_name);
    if (thread > 0 && thread != gettid()) tgkill(getpid(), thread, SIGUSR1);
  }
  sleep(3);
}

static void last_words(int signal) {
  char text[200];
  int length =
      std::snprintf(text, sizeof text, "signal %d in thread %d; operations %d, allocations %d, faults %d\n",
                    signal, static_cast<int>(gettid()), operations.load(), allocations.load(), faults.load());
  [[maybe_unused]] ssize_t written = write(1, text, static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < doing.size(); ++i) {
    char const* const what = doing[i].load();
    if (what == nullptr) continue;
    length = std::snprintf(text, sizeof text, "  thread %zu: %s\n", i, what);
    written = write(1, text, static_cast<std::size_t>(length));
  }
  if (signal == SIGSEGV) {
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), 1);
  }
  if (signal == SIGALRM) every_thread_says_where();
  _exit(128 + signal);
}

void install_last_words() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs now
  std::signal(SIGUSR1, where_it_is);
  for (int const signal : {SIGALRM, SIGSEGV, SIGFPE, SIGBUS}) std::signal(signal, last_words);
}

std::uint32_t next_stamp() {
  static std::atomic<std::uint32_t> last{0};
  return 0x5a000000u + ++last;
}

void place::open() {
  if (primary) {
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
  } else {
    CHECK(cuCtxCreate(&context, nullptr, 0, device));
    CHECK(cuCtxPopCurrent(nullptr));
  }
  CHECK(cuCtxSetCurrent(context));
  work.open();
  CUmemPoolProps plain{};
  plain.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  plain.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  CHECK(cuMemPoolCreate(&pool, &plain));
  CHECK(cuStreamCreate(&shared[0], CU_STREAM_DEFAULT));
  CHECK(cuStreamCreate(&shared[1], CU_STREAM_NON_BLOCKING));
}

// The driver's own pools outlive a reset, so stream-ordered memory is given back; so is pinned memory.
void place::leave(block const& b) {
  device_work::gives(b, nullptr);
  if (b.is_ordered()) CHECK(cuMemFree(b.address));
  if (b.on_host()) CHECK(cuMemFreeHost(reinterpret_cast<void*>(b.address)));
}

void place::close(unsigned way) {
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuCtxSynchronize());
  std::vector<block> dead;
  dead.swap(blocks_);
  for (block const& b : dead) leave(b);
  CHECK(cuMemPoolDestroy(pool));
  work.close();
  if (!primary) {
    CHECK(cuCtxDestroy(context));
  } else if (way % 2 == 0) {
    CHECK(cuDevicePrimaryCtxReset(device));
    CHECK(cuDevicePrimaryCtxRelease(device));
  } else {
    CHECK(cuDevicePrimaryCtxRelease(device));
  }
  // What the context took with it cannot be freed again.
  for (std::size_t i = 0; i < dead.size() && i < 3; ++i) {
    if (dead[i].kind != memory::plain) continue;
    CUresult const code = cuMemFree(dead[i].address);
    if (code == CUDA_SUCCESS) fault("a block of an ended context was freed");
  }
}

void place::keep(block b) {
  std::lock_guard const lock(mutex_);
  blocks_.push_back(std::move(b));
}

std::optional<block> place::take(std::mt19937& random) {
  std::lock_guard const lock(mutex_);
  if (blocks_.empty()) return std::nullopt;
  std::swap(blocks_[random() % blocks_.size()], blocks_.back());
  block b = std::move(blocks_.back());
  blocks_.pop_back();
  return b;
}

std::size_t place::live() {
  std::lock_guard const lock(mutex_);
  return blocks_.size();
}

}  // namespace random_program
