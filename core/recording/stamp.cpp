// See stamp.hpp.
#include "core/recording/stamp.hpp"

#include <string_view>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/base/small_file.hpp"

namespace gpumem::recording {

bool has_common_counter() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  bool const invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
  bool const readable = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (d & 1u << 27) != 0;  // rdtscp
  if (!invariant || !readable) return false;
  // A kernel that found the counters apart uses another clock.
  char text[32];
  base::read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", text);
  std::string_view const name(text);
  return name.empty() || name.starts_with("tsc") || name.starts_with("kvm-clock") ||
         name.starts_with("hyperv");
#elif defined(__aarch64__)
  return true;  // the architecture says so
#else
  return false;
#endif
}

}  // namespace gpumem::recording
