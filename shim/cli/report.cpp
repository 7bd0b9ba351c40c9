// See report.hpp.
#include "shim/cli/report.hpp"

#include <strings.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "config/suggest.hpp"
#include "core/base/clock.hpp"
#include "core/base/format.hpp"
#include "core/base/line_writer.hpp"
#include "core/report/glossary.hpp"
#include "core/report/text.hpp"
#include "core/report/text_format.hpp"
#include "shim/cli/pages.hpp"
#include "shim/cli/source_lines.hpp"

namespace gpumem::cli {
namespace {

int fail(std::string const& reason) {
  base::write_all(STDERR_FILENO, "gpumem: error: " + reason + "\n");
  return 2;
}

void print(std::string const& text) {
  base::write_all(STDOUT_FILENO, text);
}

void show(report::document const& content, report_options const& options) {
  if (options.json) {
    print(content.dump(1, ' ', false, report::document::error_handler_t::replace) + "\n");
    return;
  }
  report::text_options look;
  look.utf8 = report::locale_is_utf8();
  look.colour = ::isatty(STDOUT_FILENO) == 1;
  print(report::render_text(content, look));
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
  show(report::make_document(taken.value, how), options);
  return 0;
}

int show_file(std::string const& path, report_options const& options) {
  std::ifstream in(path, std::ios::binary);
  if (in.peek() != '{') {
    found_page page;
    page.path = path;
    stats::snapshot_result const taken = stats::read_snapshot(path);
    page.pid = taken.value.pid;
    page.start_ticks = taken.value.start_ticks;
    return show_page(page, options);
  }
  std::string const text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  report::document content = report::document::parse(text, nullptr, false);
  if (content.is_discarded()) return fail(path + ": not valid JSON: it was cut short or edited");
  auto const schema = report::number(content, "schema");
  if (schema != static_cast<std::uint64_t>(report::schema)) {
    return fail(base::format("{}: no report of gpumem with schema {}", path, report::schema));
  }
  add_source_lines(content);
  show(content, options);
  return 0;
}

int list_pages(page_list const& list) {
  std::string text = base::format("{:>8}  {:<19}  {:<9}  {}\n", "PID", "OPENED", "STATE", "PROGRAM");
  for (found_page const& page : list.pages) {
    stats::snapshot_result const taken = stats::read_snapshot(page.path);
    if (!taken.error.empty()) {
      text += base::format("{:>8}  {}\n", page.pid, taken.error);
      continue;
    }
    auto const seconds = static_cast<time_t>(taken.value.opened_wall_ns / 1'000'000'000u);
    tm local{};
    char when[32] = "?";
    if (::localtime_r(&seconds, &local) != nullptr)
      ::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    text += base::format(
        "{:>8}  {:<19}  {:<9}  {}\n", page.pid, when, state_of(page, taken.value),
        report::printable(taken.value.argv.empty() ? taken.value.exe : taken.value.argv.front()));
  }
  print(list.pages.empty() ? "no state pages in " + list.directory + "\n" : text);
  return 0;
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

void add_wrapped(std::string& text, std::string_view name, std::string_view meaning) {
  constexpr std::size_t indent = 18;
  std::string line = base::format("{:<{}}", name, indent);
  while (!meaning.empty()) {
    std::size_t const end = std::min(meaning.find(' '), meaning.size());
    if (line.size() > indent && line.size() + end + 1 > report::page_width) {
      text += line + "\n";
      line = std::string(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += meaning.substr(0, end);
    meaning.remove_prefix(std::min(end + 1, meaning.size()));
  }
  text += line + "\n";
}

int explain(std::string const& term) {
  std::string text;
  std::vector<std::string_view> names;
  for (auto const& entry : report::glossary) {
    names.push_back(entry.name);
    if (term.empty() ||
        ::strncasecmp(term.c_str(), entry.name.data(), std::max(term.size(), entry.name.size())) == 0) {
      add_wrapped(text, entry.name, entry.meaning);
    }
  }
  if (text.empty()) {
    std::string const hint = config::did_you_mean(term, names);
    return fail("\"" + report::printable(term) + "\" is no term of the report; " +
                (hint.empty() ? "gpumem report --explain lists all" : hint));
  }
  print(text);
  return 0;
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
