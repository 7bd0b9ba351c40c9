// See text.hpp. Head, status, findings and the last line; the sections between are in text_sections.cpp.
#include "core/report/text.hpp"

#include <string.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/format.hpp"
#include "core/report/text_callers.hpp"
#include "core/report/text_format.hpp"
#include "core/report/text_sections.hpp"

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

void add_head(std::string& text, document const& from) {
  document const& process = field(from, "process");
  std::string const name = "=== gpumem " + words(field(from, "tool"), "version") + " ";
  std::string const pid = base::format("   pid {} ===", number_or_zero(process, "pid"));
  std::string command = command_line(process);
  std::size_t const room = page_width - name.size() - pid.size() - 5;
  if (command.size() > room) command = left(command, room);
  std::size_t const used = name.size() + 1 + command.size() + pid.size();
  text += name + std::string(used < page_width ? page_width - used : 1, '=') + " " + command + pid + "\n";
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

void add_pair(std::string& text, char const* label, std::string const& value, char const* second = "",
              std::string const& second_value = {}) {
  std::string line = base::format("{:<11} {}", label, value);
  if (!second_value.empty()) {
    std::size_t const width = line.size() - (line.rfind('\n') == line.npos ? 0 : line.rfind('\n') + 1);
    if (width < 48) line += std::string(48 - width, ' ');
    if (std::max<std::size_t>(width, 48) + 14 + second_value.size() > page_width) {
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
  add_pair(text, "status", status_text(from), "host", host);

  std::string const path = words(config, "path");
  std::string const digest = words(config, "sha256");
  std::string source = path.empty() ? "built-in default" : path;
  if (!digest.empty()) source += "  sha256 " + digest.substr(0, 8);
  auto const warnings = number_or_zero(config, "warning_count");
  source += base::format("  {} warning{}", warnings, warnings == 1 ? "" : "s");
  add_pair(text, "config", source, "json", printable(options.json_path));

  document const& hooks = field(intercept, "hooks");
  std::string seen = base::format("{} functions called", hooks.is_array() ? hooks.size() : 0);
  std::string const cudart = words(intercept, "cudart");
  if (!cudart.empty()) seen += ", cudart " + cudart;
  add_pair(text, "intercept", seen, "explain", "gpumem report --explain");
}

void add_findings(std::string& text, document const& from, text_options const& options) {
  document const& findings = field(from, "findings");
  if (!findings.is_array() || findings.empty()) return;
  text += '\n';
  for (auto const& finding : findings) {
    std::string const level = words(finding, "level");
    std::string line = base::format("{:<2} {}", level, words(finding, "text"));
    std::string const see = words(finding, "see");
    if (!see.empty()) line = base::format("{:<66} see {}", line, see);
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
  if (!options.json_path.empty()) return next + "     gpumem report " + printable(options.json_path);
  return next + "     GPUMEM_JSON=%e.%p.json keeps it as data";
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
  add_head(text, from);
  add_status(text, from, options);
  add_findings(text, from, options);
  add_devices(text, from);
  add_timeline(text, from, options);
  add_calls(text, from);
  add_chains(text, from);
  add_leaks(text, from);
  add_misuses(text, from);
  add_sizes(text, from);
  add_failures(text, from);
  text += "\n" + next_command(from, options) + "\n";
  text += "=== end " + std::string(page_width - 8, '=') + "\n";
  return text;
}

}  // namespace gpumem::report
