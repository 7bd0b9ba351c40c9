// Where another thread may come between two steps. In the real library nothing. In libgpumem_mutant.so and
// the simulated CUDA, for tests only, under TEST_INTERLEAVE=1 the calling thread lets others run here now and
// then, so that what needs a window of some nanoseconds happens in minutes and not in weeks. Stands between
// the steps of whatever takes no lock, and where locks are given up. Any thread, with locks held; no call
// that blocks for long, no point at which a thread may be cancelled.
#pragma once

#ifdef GPUMEM_TEST_MUTANT
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#endif

namespace gpumem::base {

#ifdef GPUMEM_TEST_MUTANT

[[gnu::noinline]] inline void let_others_run(bool for_long) noexcept {
  int const saved = errno;
  timespec const pause{.tv_sec = 0, .tv_nsec = 30'000};
  if (for_long) {
    ::syscall(SYS_nanosleep, &pause, nullptr);  // the function would be a point of cancellation
  } else {
    sched_yield();
  }
  errno = saved;
}

// From load on: asked for at the first call it would be counted with that (bench.first_call_counts).
inline bool const interleaves = std::getenv("TEST_INTERLEAVE") != nullptr;

inline void interleave() noexcept {
  if (!interleaves) return;
  thread_local std::uint32_t random = 0;
  if (random == 0) random = static_cast<std::uint32_t>(::syscall(SYS_gettid)) * 2654435761u | 1;
  random ^= random << 13;  // Marsaglia: "Xorshift RNGs", 2003
  random ^= random >> 17;
  random ^= random << 5;
  if (random % 256 == 0) let_others_run(random / 256 % 64 == 0);
}

// The same each time: for a seeded bug whose window is to be met in a few runs.
inline void interleave_surely() noexcept {
  if (interleaves) let_others_run(true);
}

#else

inline void interleave() noexcept {}
inline void interleave_surely() noexcept {}

#endif

}  // namespace gpumem::base
