// Renders diagnostics in the form of compilers, which editors can jump to; see diagnostic.hpp. Called once,
// when a configuration was loaded; one thread. The text of a file is untrusted and never printed raw.
#include "config/text/diagnostic.hpp"

#include <algorithm>
#include <tuple>

#include "core/base/text/printable.hpp"

namespace gpumem::config {
namespace {

constexpr std::size_t widest = 160;  // code points of a source line that are shown

std::string_view line_of(std::string_view text, std::uint32_t line) noexcept {
  for (std::uint32_t i = 1; i < line; ++i) {
    auto const end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

// One text for each character, with tabs as spaces, so that carets stand right.
std::vector<std::string_view> visible_code_points(std::string_view line) {
  std::vector<std::string_view> result;
  while (!line.empty()) {
    bool const tab = line.front() == '\t';
    std::string_view const next = base::next_printable(line);
    result.push_back(tab ? " " : next);
  }
  return result;
}

std::string source_and_carets(diagnostic const& item) {
  auto const points = visible_code_points(item.source_line);
  std::size_t const column = std::max<std::size_t>(item.at.column, 1) - 1;
  std::size_t const begin = points.size() > widest && column > widest / 2 ? column - widest / 2 : 0;
  std::size_t const end = std::min(points.size(), begin + widest);
  std::string source;
  for (std::size_t i = begin; i < end; ++i) source += points[i];
  std::size_t const room = end > column ? end - column : 1;
  std::size_t const carets = std::clamp<std::size_t>(item.at.length, 1, room);

  std::string number = std::to_string(item.at.line);
  number.insert(0, number.size() < 5 ? 5 - number.size() : 0, ' ');
  std::string result = number + " | " + source + "\n" + std::string(number.size(), ' ') + " | " +
                       std::string(column - begin, ' ') + std::string(carets, '^');
  if (!item.note.empty()) result += " " + base::printable(item.note);
  return result + "\n";
}

std::string count_of(std::size_t count, std::string_view word) {
  return std::to_string(count) + " " + std::string(word) + (count == 1 ? "" : "s");
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  std::size_t shown = 0;
  for (auto point : visible_code_points(text)) {
    if (++shown > 60) {
      result += "...";
      break;
    }
    result += point;
  }
  return result + "\"";
}

std::string diagnostics::position(file_position at) const {
  return file_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

bool diagnostics::has_errors() const noexcept {
  return std::any_of(list_.begin(), list_.end(),
                     [](auto const& item) { return item.level == severity::error; });
}

void diagnostics::add(severity level, char const* code, file_position at, std::string text,
                      std::string note) {
  if (list_.size() >= most && (level == severity::warning || has_errors())) return;
  // Per-device views repeat the rules; what they find twice is said once.
  for (auto const& item : list_) {
    if (item.code == code && item.at.line == at.line && item.at.column == at.column && item.text == text)
      return;
  }
  list_.push_back({level, code, file_, at, std::move(text), std::move(note),
                   std::string(at.line == 0 ? std::string_view() : line_of(text_, at.line))});
}

void sort(std::vector<diagnostic>& list) {
  auto const order = [](diagnostic const& item) {
    return std::tuple(item.at.line == 0, item.at.line, item.at.column);
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](auto const& a, auto const& b) { return order(a) < order(b); });
}

std::string render(diagnostic const& item) {
  std::string result = base::printable(item.file);
  if (item.at.line != 0) result += ":" + std::to_string(item.at.line) + ":" + std::to_string(item.at.column);
  result += item.level == severity::error ? ": error[" : ": warning[";
  result += item.code + "]: " + base::printable(item.text);
  if (item.at.line != 0) return result + "\n" + source_and_carets(item);
  if (!item.note.empty()) result += "; " + base::printable(item.note);
  return result + "\n";
}

std::string render(std::vector<diagnostic> const& list, std::string_view file, consequence outcome) {
  if (list.empty()) return {};
  std::string result;
  std::size_t errors = 0;
  bool in_file = false;
  for (auto const& item : list) {
    result += render(item);
    bool const error = item.level == severity::error;
    errors += error ? 1U : 0U;
    in_file = in_file || ((error || errors == 0) && item.file == file);
  }
  result += "gpumem: ";
  result += errors != 0 ? count_of(errors, "error") : count_of(list.size(), "warning");
  result += " in ";
  result += in_file ? base::printable(file) : "the environment";
  if (errors != 0 && outcome == consequence::not_started) result += "; the program was not started";
  if (errors != 0 && outcome == consequence::passthrough) result += "; the program runs without gpumem";
  return result + "\n";
}

}  // namespace gpumem::config
