// See stamp.hpp.
#include "core/recording/stamp.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gpumem::recording {

bool has_common_counter() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  bool const invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
  bool const readable = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (d & 1u << 27) != 0;  // rdtscp
  if (!invariant || !readable) return false;
  // A kernel that found the counters apart uses another clock.
  int const file =
      ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  char text[32] = {};
  ssize_t const length = ::read(file, text, sizeof text - 1);
  ::close(file);
  std::string_view const name(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  return name.empty() || name.starts_with("tsc") || name.starts_with("kvm-clock") ||
         name.starts_with("hyperv");
#elif defined(__aarch64__)
  return true;  // the architecture says so
#else
  return false;
#endif
}

}  // namespace gpumem::recording
