// A preload library with a clock of its own, as libfaketime and simulators have: OWN_CLOCK=frozen (it stands
// still), back (each look is 1,000 s before the last one), forth (an hour after it). Any thread.
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<long> looks{0};

}  // namespace

extern "C" int clock_gettime(clockid_t which, timespec* now) noexcept {
  char const* const kind = getenv("OWN_CLOCK");
  long const result = syscall(SYS_clock_gettime, which, now);
  if (kind == nullptr || result != 0) return static_cast<int>(result);
  long const look = ++looks;
  if (strcmp(kind, "frozen") == 0) *now = {1'000'000, 0};
  if (strcmp(kind, "back") == 0) now->tv_sec = 1'000'000'000 - look * 1000;
  if (strcmp(kind, "forth") == 0) now->tv_sec += look * 3600;
  return 0;
}

extern "C" time_t time(time_t* also) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (also != nullptr) *also = now.tv_sec;
  return now.tv_sec;
}
