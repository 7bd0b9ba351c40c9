// See report.hpp.
#include "shim/cli/report/report.hpp"

#include <fcntl.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "config/text/suggest.hpp"
#include "core/base/clock.hpp"
#include "core/base/log/log.hpp"
#include "core/base/text/format.hpp"
#include "core/base/text/printable.hpp"
#include "core/report/document.hpp"
#include "core/report/glossary.hpp"
#include "core/report/output/terminal.hpp"
#include "core/report/output/text.hpp"
#include "core/report/output/text_format.hpp"
#include "shim/cli/output.hpp"
#include "shim/cli/report/json_report.hpp"
#include "shim/cli/report/pages.hpp"
#include "shim/cli/report/source_lines.hpp"

namespace gpumem::cli {
namespace {

int fail(std::string const& reason) {
  base::log_line(base::log_level::error, reason);
  return 2;
}

int print_or_fail(std::string const& text) {
  return print(text) ? 0 : exit_not_written;
}

int show(report::document const& content, report_options const& options) {
  if (options.json) {
    // A terminal must not obey what is in it: all but ASCII is escaped.
    return print_or_fail(content.dump(1, ' ', true, report::document::error_handler_t::replace) + "\n");
  }
  report::text_options look;
  look.utf8 = report::locale_is_utf8();
  report::look_at_terminal(look, STDOUT_FILENO);
  return print_or_fail(report::render_text(content, look));
}

int show_page(found_page const& page, report_options const& options) {
  stats::snapshot_result const taken = stats::read_snapshot(page.path);
  if (!taken.error.empty()) return fail(taken.error);
  report::document_options how;
  how.written_by = "gpumem report";
  how.alive = page.process_lives();
  how.add_lines = add_source_lines;
  if (how.alive && !taken.value.closed) {
    how.end = stats::end_record{};
    how.end->duration_ns = base::now_ns() - taken.value.opened_mono_ns;
  }
  return show(report::make_document(taken.value, how), options);
}

// A report begins with a brace, a page with its magic number.
bool is_json(std::string const& path) {
  char first = 0;
  int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  bool const read = descriptor >= 0 && ::read(descriptor, &first, 1) == 1;
  if (descriptor >= 0) ::close(descriptor);
  return read && first == '{';
}

int show_file(std::string const& path, report_options const& options) {
  if (!is_json(path)) {
    found_page page;
    page.path = path;
    stats::snapshot_result const taken = stats::read_snapshot(path);
    page.pid = taken.value.pid;
    page.start_ticks = taken.value.start_ticks;
    return show_page(page, options);
  }
  json_report read = read_json_report(path, report::schema);
  if (!read.error.empty()) return fail(read.error);
  add_source_lines(read.content);
  return show(read.content, options);
}

int list_pages(page_list const& list) {
  std::string text = base::format("{:>8}  {:<19}  {:<9}  {}\n", "PID", "OPENED", "STATE", "PROGRAM");
  for (found_page const& page : list.pages) {
    stats::snapshot_result const taken = stats::read_snapshot(page.path);
    if (!taken.error.empty()) {
      text += base::format("{:>8}  {}\n", page.pid, base::printable(taken.error));
      continue;
    }
    auto const seconds = static_cast<time_t>(taken.value.opened_wall_ns / 1'000'000'000u);
    tm local{};
    char when[32] = "?";
    if (::localtime_r(&seconds, &local) != nullptr)
      ::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    text +=
        base::format("{:>8}  {:<19}  {:<9}  {}\n", page.pid, when, state_of(page, taken.value),
                     base::printable(taken.value.argv.empty() ? taken.value.exe : taken.value.argv.front()));
  }
  return print_or_fail(list.pages.empty() ? "no state pages in " + base::printable(list.directory) + "\n"
                                          : text);
}

// The page opened last, of the ended processes or of process `pid`.
std::optional<found_page> choose(page_list const& list, long pid) {
  std::optional<found_page> chosen;
  std::uint64_t newest = 0;
  for (found_page const& page : list.pages) {
    if (pid != 0 ? page.pid != pid : page.process_lives()) continue;
    stats::snapshot_result const taken = stats::read_snapshot(page.path);
    bool const newer = taken.error.empty() && taken.value.opened_wall_ns >= newest;
    if (chosen && !newer) continue;
    chosen = page;
    if (taken.error.empty()) newest = taken.value.opened_wall_ns;
  }
  return chosen;
}

void add_wrapped(std::string& text, std::string_view name, std::string_view meaning, std::size_t width) {
  constexpr std::size_t indent = 18;
  std::string line = base::format("{:<{}}", name, indent);
  while (!meaning.empty()) {
    std::size_t const end = std::min(meaning.find(' '), meaning.size());
    if (line.size() > indent && line.size() + end + 1 > width) {
      text += line + "\n";
      line = std::string(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += meaning.substr(0, end);
    meaning.remove_prefix(std::min(end + 1, meaning.size()));
  }
  text += line + "\n";
}

// Whether this is one of the names of a term: "pending|freed, work not known to be done".
bool is_called(std::string_view names, std::string_view word) {
  for (std::size_t end = 0; end != names.npos; names.remove_prefix(end == names.npos ? 0 : end + 1)) {
    end = names.find('|');
    std::string_view const name = names.substr(0, end);
    if (name.size() == word.size() && ::strncasecmp(name.data(), word.data(), name.size()) == 0) return true;
  }
  return false;
}

int explain(std::string const& term) {
  std::string text;
  std::size_t const width = report::columns_of_terminal(STDOUT_FILENO, report::page_width);
  std::vector<std::string_view> names;
  for (auto const& entry : report::glossary) {
    names.push_back(entry.first_name());
    if (term.empty() || is_called(entry.name, term))
      add_wrapped(text, entry.first_name(), entry.meaning, width);
  }
  if (text.empty()) {
    std::string const hint = config::did_you_mean(term, names);
    return fail("\"" + term + "\" is no term of the report; " +
                (hint.empty() ? "gpumem report --explain lists all" : hint));
  }
  return print_or_fail(text);
}

int clean(page_list const& list) {
  cleaned const done = remove_ended(list);
  std::string text = base::format("{} state page{} of ended processes removed from {}", done.removed,
                                  done.removed == 1 ? "" : "s", base::printable(list.directory));
  if (done.living != 0)
    text += base::format("; {} of live ones stay{}", done.living, done.living == 1 ? "s" : "");
  if (!print(text + "\n")) return exit_not_written;
  if (done.refused.empty()) return 0;
  return fail(base::format("{} could not be removed: {}", done.refused, done.reason));
}

}  // namespace

int report(report_options const& options) {
  if (options.explain) return explain(options.term);
  if (!options.files.empty()) {
    int worst = 0;
    for (auto const& file : options.files) worst = std::max(worst, show_file(file, options));
    return worst;
  }
  page_list list = find_pages();
  if (!list.error.empty()) return fail(list.error);
  if (options.clean) return clean(list);
  if (remove_stale(list) != 0) list = find_pages();
  if (options.list) return list_pages(list);
  auto const chosen = choose(list, options.pid);
  if (chosen) return show_page(*chosen, options);
  if (options.pid != 0) {
    return fail(base::format("no state page of process {} in {}; gpumem report --list shows what there is",
                             options.pid, list.directory));
  }
  return fail(
      base::format("no state page of an ended process in {}; one that ended by itself wrote its own report",
                   list.directory));
}

}  // namespace gpumem::cli
