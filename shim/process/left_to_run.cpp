// See left_to_run.hpp.
#include "shim/process/left_to_run.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "core/base/files/file_identity.hpp"
#include "core/base/log/log.hpp"
#include "core/stats/page/file/run_mark.hpp"
#include "core/stats/page/state_page.hpp"
#include "shim/process/settings.hpp"

namespace gpumem::shim {
namespace {

// What it was started with is what both write to, unless one of them was given something else since.
bool is_the_runs(pid_t run, int number, int own) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(run), number);
  int const saved = errno;
  struct stat there {};
  bool const found = ::stat(path, &there) == 0;
  errno = saved;
  auto const here = base::file_identity::of(own);
  return found && here.known && there.st_dev == here.device && there.st_ino == here.number;
}

bool goes_to_the_same(std::string_view pattern, pid_t run, int stdout_fd) noexcept {
  if (pattern == "stderr" || pattern == "/dev/stderr") return is_the_runs(run, 2, base::log_descriptor());
  if (pattern == "stdout" || pattern == "-" || pattern == "/dev/stdout")
    return is_the_runs(run, 1, stdout_fd);
  if (pattern.starts_with("/dev/") || pattern.starts_with("/proc/")) return false;
  return pattern.find("%r") == pattern.npos && pattern.find("%q") == pattern.npos;
}

}  // namespace

bool is_left_to_run(int stdout_fd) noexcept {
  if (settings::run_id().empty() || !stats::can_be_reported_better()) return false;
  pid_t const run = stats::process_of_run(settings::run_id());
  auto const& patterns = settings::report_patterns();
  return run != 0 && goes_to_the_same(patterns.text, run, stdout_fd) &&
         goes_to_the_same(patterns.json, run, stdout_fd);
}

}  // namespace gpumem::shim
