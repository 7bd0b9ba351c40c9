// See pages.hpp.
#include "shim/cli/pages.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "core/stats/page_file.hpp"

namespace gpumem::cli {
namespace {

bool parse_name(char const* name, found_page& page) {
  unsigned long long ticks = 0;
  int end = 0;
  if (std::sscanf(name, "%ld-%llu-%u%n", &page.pid, &ticks, &page.exec_no, &end) != 3 || name[end] != '\0')
    return false;
  page.start_ticks = ticks;
  return page.pid > 0;
}

}  // namespace

bool found_page::process_lives() const noexcept {
  std::uint64_t const now = stats::start_ticks_of(static_cast<pid_t>(pid));
  return now != 0 && now == start_ticks;
}

page_list find_pages() {
  page_list list;
  char directory[stats::path_limit];
  if (!stats::state_directory(directory)) {
    list.error = "the name of the state folder is too long: set GPUMEM_STATE_DIR";
    return list;
  }
  list.directory = directory;
  DIR* const folder = ::opendir(directory);
  if (folder == nullptr) return list;  // nothing has ever been written: no error
  char const* const reason = stats::check_directory(directory, false);
  if (reason != nullptr) list.error = list.directory + ": " + reason;
  while (dirent const* const entry = reason == nullptr ? ::readdir(folder) : nullptr) {
    found_page page;
    if (!parse_name(entry->d_name, page)) continue;
    page.path = list.directory + "/" + entry->d_name;
    list.pages.push_back(std::move(page));
  }
  ::closedir(folder);
  std::sort(list.pages.begin(), list.pages.end(), [](found_page const& a, found_page const& b) {
    return std::tie(a.pid, a.start_ticks, a.exec_no) < std::tie(b.pid, b.start_ticks, b.exec_no);
  });
  return list;
}

unsigned remove_stale(page_list const& list) {
  unsigned removed = 0;
  for (found_page const& page : list.pages) {
    struct stat there {};
    if (::lstat(page.path.c_str(), &there) != 0 || !S_ISREG(there.st_mode)) continue;
    auto const age = ::time(nullptr) - there.st_mtime;
    if (age > static_cast<time_t>(days_kept * 24 * 3600) && !page.process_lives() &&
        ::unlink(page.path.c_str()) == 0) {
      ++removed;
    }
  }
  return removed;
}

std::string state_of(found_page const& page, stats::snapshot const& content) {
  if (content.closed) {
    if (content.end.kind == stats::end_kind::exec) return "exec";
    return "exit " + std::to_string(content.end.code);
  }
  return page.process_lives() ? "running" : "killed";
}

}  // namespace gpumem::cli
