// See process_life.hpp.
#include "core/stats/page/process_life.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/small_file.hpp"
#include "core/stats/page/file/page_file.hpp"
#include "core/stats/page/layout.hpp"

namespace gpumem::stats {
namespace {

// the kernel's own number for it: all processes are in it
constexpr std::uint64_t first_namespace = 0xeffffffc;

// The innermost of a process's numbers: the last of the line NSpid.
long innermost_number(char const* process) noexcept {
  char path[64], text[4096];
  std::snprintf(path, sizeof path, "/proc/%.32s/status", process);
  if (!base::read_small_file(path, text)) return 0;
  char* const line = std::strstr(text, "\nNSpid:");
  if (line == nullptr) return 0;
  char* const end = std::strchr(line + 1, '\n');
  if (end == nullptr) return 0;
  *end = '\0';
  char const* const last = std::strrchr(line + 1, '\t');
  return last == nullptr ? 0 : std::atol(last + 1);
}

bool is_seen(pid_t pid, std::uint64_t start_ticks) noexcept {
  DIR* const folder = ::opendir("/proc");
  bool found = false;
  while (dirent const* const entry = folder != nullptr && !found ? ::readdir(folder) : nullptr) {
    long const number = std::atol(entry->d_name);
    found = number > 0 && innermost_number(entry->d_name) == pid &&
            start_ticks_of(static_cast<pid_t>(number)) == start_ticks;
  }
  if (folder != nullptr) ::closedir(folder);
  return found;
}

}  // namespace

process_life life_of(pid_t pid, std::uint64_t start_ticks, std::uint64_t pid_space) noexcept {
  std::uint64_t const own = pid_namespace();
  if (pid_space == 0 || own == 0 || pid_space == own) {
    std::uint64_t const now = start_ticks_of(pid);
    return now != 0 && now == start_ticks ? process_life::lives : process_life::ended;
  }
  if (is_seen(pid, start_ticks)) return process_life::lives;
  return own == first_namespace ? process_life::ended : process_life::elsewhere;
}

std::uint64_t namespace_of_page(char const* path) noexcept {
  int const descriptor = ::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return 0;
  std::uint64_t magic = 0, found = 0;
  std::uint32_t version = 0;
  auto const read_at = [descriptor](std::size_t offset, auto& value) {
    return ::pread(descriptor, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
  };
  bool const known = read_at(offsetof(page_header, magic), magic) && magic == page_magic &&
                     read_at(offsetof(page_header, version), version) && version == layout_version &&
                     read_at(offsetof(page_header, pid_namespace), found);
  ::close(descriptor);
  return known ? found : 0;
}

}  // namespace gpumem::stats
