// See describe_process.hpp.
#include "core/stats/page/describe_process.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "core/stats/page/file/page_file.hpp"
#include "core/stats/page/state_page.hpp"

extern char** environ;

namespace gpumem::stats {
namespace {

// Keeps up to size - 1 bytes, and returns how many there are with a NUL behind the kept ones, which is more
// than `size` where some are left out. The items of /proc/PID/cmdline already end in NUL.
template <std::size_t size>
std::uint32_t read_file(char (&target)[size], char const* path) noexcept {
  int const descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  std::size_t length = 0;
  while (length < size - 1) {
    ssize_t const got = ::read(descriptor, target + length, size - 1 - length);
    if (got <= 0) break;
    length += static_cast<std::size_t>(got);
  }
  std::size_t beyond = 0;
  char passed_over[1024];
  while (length == size - 1) {
    ssize_t const got = ::read(descriptor, passed_over, sizeof passed_over);
    if (got <= 0) break;
    beyond += static_cast<std::size_t>(got);
  }
  ::close(descriptor);
  if (length != 0 && target[length - 1] != '\0') target[length++] = '\0';
  return static_cast<std::uint32_t>(beyond == 0 ? length : size + beyond);
}

template <std::size_t size>
std::uint32_t copy_environment(char (&target)[size]) noexcept {
  std::size_t length = 0;
  for (char** item = environ; item != nullptr && *item != nullptr; ++item) {
    std::string_view const text(*item);
    if (!text.starts_with("GPUMEM_") && !text.starts_with("CUDA_")) continue;
    if (length + text.size() + 1 > size) break;
    std::memcpy(target + length, text.data(), text.size());
    length += text.size() + 1;
    target[length - 1] = '\0';
  }
  return static_cast<std::uint32_t>(length);
}

}  // namespace

void describe_process(page_header& head) noexcept {
  head.pid = ::getpid();
  head.ppid = ::getppid();
  head.uid = ::geteuid();
  head.start_ticks = start_ticks_of(head.pid);
  head.pid_namespace = pid_namespace();
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  head.opened_wall_ns =
      static_cast<std::uint64_t>(wall.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(wall.tv_nsec);
  ::gethostname(head.host, sizeof head.host - 1);
  ssize_t const exe = ::readlink("/proc/self/exe", head.exe, sizeof head.exe - 1);
  head.exe[exe > 0 ? exe : 0] = '\0';
  if (::getcwd(head.cwd, sizeof head.cwd) == nullptr) head.cwd[0] = '\0';
  head.argv_bytes = read_file(head.argv, "/proc/self/cmdline");
  head.environment_bytes = copy_environment(head.environment);
}

base::pattern_values values_of_this_process() {
  page const* const now = current_page();
  if (now == nullptr) return {.program = {}, .pid = ::getpid(), .host = {}};
  page_header const& head = now->fixed.head;
  return {head.argv_bytes != 0 ? head.argv : head.exe, head.pid, head.host, head.exec_no};
}

}  // namespace gpumem::stats
