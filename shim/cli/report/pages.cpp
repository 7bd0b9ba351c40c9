// See pages.hpp.
#include "shim/cli/report/pages.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <tuple>

#include "core/recording/reader/recover.hpp"
#include "core/stats/page/file/page_file.hpp"
#include "core/stats/page/file/run_mark.hpp"

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

// `gpumem run` will write its report.
bool is_awaited(found_page const& page) {
  stats::snapshot_result const taken = stats::read_snapshot(page.path);
  return taken.error.empty() && taken.value.closed && taken.value.end.clean == stats::report_is_left &&
         stats::process_of_run(taken.value.run_id) != 0;
}

// Of runs that were killed: nobody asks for them any more.
void remove_old_marks(std::string const& directory, time_t oldest) {
  DIR* const folder = ::opendir(directory.c_str());
  while (dirent const* const entry = folder == nullptr ? nullptr : ::readdir(folder)) {
    struct stat there {};
    std::string const path = directory + "/" + entry->d_name;
    bool const is_mark = std::string_view(entry->d_name).starts_with(stats::mark_prefix);
    if (is_mark && ::lstat(path.c_str(), &there) == 0 && S_ISREG(there.st_mode) && there.st_mtime < oldest &&
        stats::process_of_run(entry->d_name + std::strlen(stats::mark_prefix)) == 0)
      ::unlink(path.c_str());
  }
  if (folder != nullptr) ::closedir(folder);
}

// Buffers of recordings that nobody completed.
void remove_old_buffers(std::string const& directory, time_t oldest) {
  std::string const within = directory + "/recordings";
  DIR* const folder = ::opendir(within.c_str());
  while (dirent const* const entry = folder == nullptr ? nullptr : ::readdir(folder)) {
    found_page of;
    struct stat there {};
    std::string const path = within + "/" + entry->d_name;
    bool const is_old = parse_name(entry->d_name, of) && ::lstat(path.c_str(), &there) == 0 &&
                        S_ISREG(there.st_mode) && there.st_uid == ::geteuid() && there.st_mtime < oldest;
    if (is_old && recording::life_of_buffers(path, static_cast<pid_t>(of.pid), of.start_ticks) ==
                      stats::process_life::ended)
      ::unlink(path.c_str());
  }
  if (folder != nullptr) ::closedir(folder);
}

}  // namespace

stats::process_life found_page::life() const noexcept {
  return stats::life_of(static_cast<pid_t>(pid), start_ticks, stats::namespace_of_page(path.c_str()));
}

bool found_page::process_lives() const noexcept {
  return life() != stats::process_life::ended;
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

// The newest of this user's files first; those whose processes live count for nothing.
unsigned remove_stale(page_list const& list) {
  std::vector<std::pair<time_t, found_page const*>> files;
  for (found_page const& page : list.pages) {
    struct stat there {};
    bool const found = ::lstat(page.path.c_str(), &there) == 0;
    if (found && S_ISREG(there.st_mode) && there.st_uid == ::geteuid())
      files.emplace_back(there.st_mtime, &page);
  }
  std::sort(files.begin(), files.end(), [](auto const& a, auto const& b) { return a.first > b.first; });
  time_t const oldest = ::time(nullptr) - static_cast<time_t>(days_kept * 24 * 3600);
  if (list.error.empty()) {
    remove_old_marks(list.directory, oldest);
    remove_old_buffers(list.directory, oldest);
  }
  unsigned removed = 0;
  std::size_t kept = 0;
  for (auto const& [written, page] : files) {
    if (written > oldest && kept < pages_kept) {
      ++kept;
    } else if (!page->process_lives() && !is_awaited(*page) && ::unlink(page->path.c_str()) == 0) {
      ++removed;
    }
  }
  return removed;
}

cleaned remove_ended(page_list const& list) {
  cleaned done;
  remove_old_marks(list.directory, ::time(nullptr) + 1);
  remove_old_buffers(list.directory, ::time(nullptr) + 1);
  for (found_page const& page : list.pages) {
    if (page.process_lives() || is_awaited(page)) {
      ++done.living;
    } else if (::unlink(page.path.c_str()) == 0) {
      ++done.removed;
    } else if (errno != ENOENT) {
      done.refused = page.path;
      done.reason = std::strerror(errno);
    }
  }
  return done;
}

std::string state_of(found_page const& page, stats::snapshot const& content) {
  if (content.closed) {
    if (content.end.kind == stats::end_kind::exec) return "exec";
    return "exit " + std::to_string(content.end.code);
  }
  switch (page.life()) {
    case stats::process_life::lives:
      return "running";
    case stats::process_life::elsewhere:
      return "elsewhere";
    default:
      return "killed";
  }
}

}  // namespace gpumem::cli
