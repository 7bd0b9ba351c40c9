// See text.hpp. Head, status, findings and the last line; the sections between are in text_sections.cpp.
#include "core/report/output/text.hpp"

#include <string.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/text/format.hpp"
#include "core/base/text/shell_word.hpp"
#include "core/report/document.hpp"
#include "core/report/output/text_call_sites.hpp"
#include "core/report/output/text_format.hpp"
#include "core/report/output/text_sections.hpp"

namespace gpumem::report {
namespace {

std::string signal_name(std::uint64_t number) {
  char const* const name = ::sigabbrev_np(static_cast<int>(number));
  return name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
}

std::string command_line(document const& process) {
  document const& argv = field(process, "argv");
  std::string line;
  if (argv.is_array()) {
    for (auto const& item : argv) {
      if (!item.is_string()) continue;
      std::string word = printable(item.get_ref<std::string const&>());
      if (line.empty()) word.erase(0, word.rfind('/') == word.npos ? 0 : word.rfind('/') + 1);
      line += line.empty() ? word : " " + word;
    }
  }
  return line.empty() ? "?" : line;
}

void add_head(std::string& text, document const& from, std::size_t width) {
  document const& process = field(from, "process");
  std::string const name = "=== gpumem " + words(field(from, "tool"), "version") + " ";
  std::string const pid = base::format("   pid {} ===", number_or_zero(process, "pid"));
  std::string command = command_line(process);
  std::size_t const room = width - name.size() - pid.size() - 5;
  if (command.size() > room) command = left(command, room);
  std::size_t const used = name.size() + 1 + command.size() + pid.size();
  text += name + std::string(used < width ? width - used : 1, '=') + " " + command + pid + "\n";
}

std::string status_text(document const& from) {
  document const& end = field(from, "end");
  std::string const kind = words(end, "kind");
  auto const duration = number(end, "duration_ns");
  std::string const after = duration ? " after " + duration_text(*duration) : "";
  std::string const by = words(end, "written_by");
  bool const complete = number_or_zero(field(from, "truncated"), "shards_in_memory") == 0;
  std::string const page = "\n            written by " + by + " from the state page; counters " +
                           (complete ? "complete" : "of some threads missing");
  if (kind == "exit") {
    document const& code = field(end, "code");
    std::string const number = code.is_number_integer() ? std::to_string(code.get<int>()) : std::string("?");
    bool const clean = field(end, "clean") == true;
    return "exit " + number + (clean ? ", clean," : ", without its own report,") + after +
           (clean ? "" : page);
  }
  if (kind == "signal") return "killed by " + signal_name(number_or_zero(end, "signal")) + after + page;
  if (kind == "exec") return "replaced itself by exec" + after;
  if (kind == "running") return "running, for " + (duration ? duration_text(*duration) : "?");
  return "ended in an unknown way" + after + page;
}

void add_pair(std::string& text, std::size_t page, char const* label, std::string const& value,
              char const* second, std::string const& second_value) {
  std::string line = base::format("{:<11} {}", label, value);
  if (!second_value.empty()) {
    std::size_t const width = line.size() - (line.rfind('\n') == line.npos ? 0 : line.rfind('\n') + 1);
    if (width < 48) line += std::string(48 - width, ' ');
    if (std::max<std::size_t>(width, 48) + 15 + second_value.size() > page) {
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line.clear();
    } else {
      line += "   ";
    }
    line += base::format("{:<11} {}", second, second_value);
  }
  text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string driver_text(document const& intercept) {
  auto const version = number(intercept, "driver");
  return version ? base::format("CUDA {}.{}", *version / 1000, *version % 1000 / 10) : std::string();
}

void add_status(std::string& text, document const& from, text_options const& options) {
  document const& intercept = field(from, "intercept");
  document const& config = field(from, "config");
  std::string host = words(field(from, "process"), "host");
  std::string const driver = driver_text(intercept);
  if (!driver.empty()) host += (host.empty() ? "" : ", ") + driver;
  add_pair(text, options.width, "status", status_text(from), "host", host);

  std::string const path = words(config, "path");
  std::string const digest = words(config, "sha256");
  std::string source = path.empty() ? "built-in default" : path;
  if (!digest.empty()) source += "  sha256 " + digest.substr(0, 8);
  auto const warnings = number_or_zero(config, "warnings");
  source += base::format("  {} warning{}", warnings, warnings == 1 ? "" : "s");
  add_pair(text, options.width, "config", source, "json", printable(options.json_path));

  document const& hooks = field(intercept, "hooks");
  std::string seen = base::format("{} functions called", hooks.is_array() ? hooks.size() : 0);
  std::string const cudart = words(intercept, "cudart");
  if (!cudart.empty()) seen += ", cudart " + cudart;
  add_pair(text, options.width, "intercept", seen, "explain", "gpumem report --explain");
  std::string const recording = words(field(from, "recording"), "path");
  if (!recording.empty()) add_pair(text, options.width, "recording", recording, "export", "gpumem export");
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xc0) != 0x80;
  }));
}

// Sentences that are too long for a narrow page, broken at blanks; tables and curves fit it already, and what
// has no blank stays as it is.
std::string folded(std::string const& text, std::size_t width) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    std::string const indent(
        std::max<std::size_t>(std::min<std::size_t>(line.find_first_not_of(' '), 24), 12), ' ');
    std::size_t least = 0;
    while (characters(line) > width) {
      std::size_t const blank = line.rfind(' ', width);
      if (blank == line.npos || blank <= std::max(least, line.find_first_not_of(' '))) break;
      result += line.substr(0, line.find_last_not_of(' ', blank) + 1) + "\n";
      line = indent + line.substr(blank + 1);
      least = indent.size();
    }
    result += line + "\n";
    at = end + 1;
  }
  return result;
}

void add_findings(std::string& text, document const& from, text_options const& options) {
  document const& findings = field(from, "findings");
  if (!findings.is_array() || findings.empty()) return;
  text += '\n';
  for (auto const& finding : findings) {
    std::string const level = words(finding, "level");
    std::string line = base::format("{:<2} {}", level, words(finding, "text"));
    std::string const see = words(finding, "see");
    std::size_t const column = std::min(options.width, page_width) - 30;
    if (!see.empty())
      line = line.size() > column ? line + "; see " + see : base::format("{:<{}} see {}", line, column, see);
    line = folded(line, options.width);
    line.pop_back();
    bool const red = options.colour && level == "!!";
    text += red ? "\033[1;31m" + line + "\033[0m\n" : line + "\n";
  }
}

std::string next_command(document const& from, text_options const& options) {
  document const& failures = field(from, "failures");
  std::string next = "next: ";
  if (failures.is_array() && !failures.empty()) {
    next += "gpumem report --explain \"out of memory\"";
  } else {
    next += "gpumem report --explain";
  }
  std::string const more = options.json_path.empty()
                               ? "GPUMEM_JSON=%e.%p.json keeps it as data"
                               : "gpumem report " + base::shell_word(printable(options.json_path));
  bool const fits = next.size() + 5 + more.size() <= options.width;
  return next + (fits ? std::string(5, ' ') : "\n" + std::string(6, ' ')) + more;
}

}  // namespace

bool locale_is_utf8() noexcept {
  for (char const* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    char const* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return ::strcasestr(value, "utf-8") != nullptr || ::strcasestr(value, "utf8") != nullptr;
  }
  return false;
}

std::string render_text(document const& from, text_options const& options) {
  std::string text;
  add_head(text, from, options.width);
  add_status(text, from, options);
  add_findings(text, from, options);
  add_devices(text, from, options);
  add_libraries(text, from, options);
  add_categories(text, from, options);
  add_samples(text, from, options);
  add_phases(text, from, options);
  add_timeline(text, from, options);
  add_calls(text, from, options);
  add_chains(text, from, options);
  add_leaks(text, from, options);
  add_misuses(text, from, options);
  add_sizes(text, from, options);
  add_failures(text, from, options);
  text += "\n" + next_command(from, options) + "\n";
  text += "=== end " + std::string(options.width - 8, '=') + "\n";
  return options.width < page_width ? folded(text, options.width) : text;
}

}  // namespace gpumem::report
