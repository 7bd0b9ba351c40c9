// See run_mark.hpp.
#include "core/stats/page/file/run_mark.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace gpumem::stats {

bool path_of_mark(char const* directory, std::string_view run_id, char (&path)[path_limit]) noexcept {
  bool const plain = !run_id.empty() && run_id.find_first_not_of("0123456789abcdef-") == run_id.npos;
  int const length = std::snprintf(path, sizeof path, "%s/%s%.*s", directory, mark_prefix,
                                   static_cast<int>(run_id.size()), run_id.data());
  return plain && length > 0 && static_cast<std::size_t>(length) < sizeof path;
}

pid_t process_of_run(std::string_view run_id) noexcept {
  auto const digits = run_id.substr(0, run_id.find('-'));
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != digits.npos) return 0;
  int const saved = errno;
  char path[64], program[path_limit];
  std::snprintf(path, sizeof path, "/proc/%.*s/exe", static_cast<int>(digits.size()), digits.data());
  ssize_t const length = ::readlink(path, program, sizeof program);
  errno = saved;
  std::string_view const found(program, length > 0 ? static_cast<std::size_t>(length) : 0);
  // Another process may have its number by now.
  return found.ends_with("/gpumem") ? static_cast<pid_t>(std::atol(path + sizeof "/proc/" - 1)) : 0;
}

void remove_mark(std::string_view run_id) noexcept {
  char directory[path_limit], path[path_limit];
  int const saved = errno;
  if (!run_id.empty() && state_directory(directory) && check_directory(directory, false) == nullptr &&
      path_of_mark(directory, run_id, path))
    ::unlink(path);
  errno = saved;
}

}  // namespace gpumem::stats
