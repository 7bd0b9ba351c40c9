// See own_clock.hpp. Takes the place of the C library's clock in the programs that link it.
#include "tests/unit/own_clock/own_clock.hpp"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <atomic>

namespace {

std::atomic<std::uint64_t> own_ns{0}, step_ns{0};  // 0: the system's
std::atomic<std::uint64_t> ahead_ns{0};            // by which the system's is behind

int ask_system(clockid_t which, timespec* now) noexcept {
  static auto const real =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return real(which, now);
}

std::uint64_t as_ns(timespec const& t) noexcept {
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t system_ns() noexcept {
  timespec now{};
  ask_system(CLOCK_MONOTONIC, &now);
  return as_ns(now) + ahead_ns;
}

}  // namespace

extern "C" int clock_gettime(clockid_t which, timespec* now) noexcept {
  if (which != CLOCK_MONOTONIC) return ask_system(which, now);
  std::uint64_t const ns = own_ns != 0 ? own_ns.fetch_add(step_ns) : system_ns();
  *now = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  return 0;
}

namespace gpumem::tests {

own_clock::own_clock(std::uint64_t ns_a_look) noexcept {
  step_ns = ns_a_look;
  own_ns = system_ns();
}

own_clock::~own_clock() {
  std::uint64_t const now = system_ns();
  ahead_ns += std::max(now, own_ns.load()) - now;
  own_ns = 0;
}

void own_clock::pass(std::uint64_t ns) noexcept {
  own_ns += ns;
}

}  // namespace gpumem::tests
