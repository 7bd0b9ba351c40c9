// See sleep.hpp.
#include "core/base/threads/sleep.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/clock.hpp"

namespace gpumem::base {

void sleep_for(std::uint64_t nanoseconds) noexcept {
  constexpr std::uint64_t second = 1'000'000'000;
  int const kept = errno;
  timespec const time{.tv_sec = static_cast<time_t>(nanoseconds / second),
                      .tv_nsec = static_cast<long>(nanoseconds % second)};
  // As libc's own nanosleep does it.
  if (::syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, nullptr) != 0 && errno != EINTR) {
    for (std::uint64_t const until = now_ns() + nanoseconds; now_ns() < until;) ::sched_yield();
  }
  errno = kept;
}

}  // namespace gpumem::base
