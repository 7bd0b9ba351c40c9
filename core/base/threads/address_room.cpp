// See address_room.hpp.
#include "core/base/threads/address_room.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "core/base/small_file.hpp"
#include "core/base/threads/uncancelled.hpp"

namespace gpumem::base {
namespace {

constexpr std::uint64_t share = 64;

// The first figure of statm, in pages; 0: not known.
std::uint64_t addresses_in_use() noexcept {
  char text[64];
  if (!read_small_file("/proc/self/statm", text)) return 0;
  return std::strtoull(text, nullptr, 10) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::uint64_t address_room(std::uint64_t wanted) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  int const saved = errno;
  uncancelled const whole;
  std::uint64_t const used = addresses_in_use();
  errno = saved;
  return std::min(wanted, limit.rlim_cur > used ? (limit.rlim_cur - used) / share : 0);
}

}  // namespace gpumem::base
