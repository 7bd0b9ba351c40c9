// See backoff.hpp.
#include "core/base/threads/backoff.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/mutant.hpp"

namespace gpumem::base {
namespace {

// Not tuned: a yield takes 0.3 us where nobody else wants the processor, so that what a thread with a
// processor of its own is about to do is over before anybody sleeps.
constexpr unsigned looks_without_sleep = 64 + 256;
constexpr timespec nap{.tv_sec = 0, .tv_nsec = 50'000};

}  // namespace

// The system call, as the function is a point of cancellation. A sandbox may forbid it.
[[gnu::cold]] void yield_or_sleep(unsigned& looks) noexcept {
  int const kept = errno;
  bool const sleeps = looks >= looks_without_sleep && !GPUMEM_MUTANT(waits_never_sleep);
  if (!sleeps) ++looks;
  if (!sleeps || (::syscall(SYS_nanosleep, &nap, nullptr) != 0 && errno != EINTR)) ::sched_yield();
  errno = kept;
}

}  // namespace gpumem::base
