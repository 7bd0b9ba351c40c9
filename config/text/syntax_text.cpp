// Rewrites the parser's messages; see syntax_text.hpp. Looks at the line, which tells more than the
// message: "expected digit, saw 'G'" is about a size without quotes. An unknown message is passed on
// unchanged.
#include "config/text/syntax_text.hpp"

#include "config/text/diagnostic.hpp"

namespace gpumem::config {
namespace {

bool is_space(char c) noexcept {
  return c == ' ' || c == '\t';
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// The parts of "key = value  # comment", good enough for a message.
struct assignment {
  std::string_view key, value;
  file_position value_at;
};

assignment split(std::string_view line, file_position at) noexcept {
  assignment result;
  auto const equals = line.find('=');
  if (equals == line.npos) return result;
  result.key = trim(line.substr(0, equals));
  auto const value = line.substr(equals + 1);
  result.value = trim(value.substr(0, value.find('#')));
  std::size_t const begin =
      result.value.empty() ? line.size() : static_cast<std::size_t>(result.value.data() - line.data());
  std::uint32_t points = 0;
  for (char c : line.substr(0, begin)) points += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1U : 0U;
  result.value_at = {at.line, points + 1, static_cast<std::uint32_t>(result.value.size())};
  return result;
}

// "80 GiB", "80GiB", "50 %", "50 % of free"
bool is_number_with_unit(std::string_view value) noexcept {
  std::size_t i = 0;
  while (i < value.size() && (is_digit(value[i]) || value[i] == '.' || value[i] == '_')) ++i;
  if (i == 0 || !is_digit(value.front())) return false;
  auto unit = trim(value.substr(i));
  if (unit.starts_with('%')) return true;
  if (unit.empty() || unit.size() > 5) return false;
  for (char c : unit) {
    if (!is_letter(c)) return false;
  }
  return unit.front() != 'x';  // hexadecimal
}

// The bare word that begins at the column.
std::string_view word_at(std::string_view line, std::uint32_t column) noexcept {
  if (column == 0 || column > line.size()) return {};
  auto rest = line.substr(column - 1);
  std::size_t size = 0;
  while (size < rest.size() && (is_letter(rest[size]) || is_digit(rest[size]) || rest[size] == '-')) ++size;
  return rest.substr(0, size);
}

std::string write(std::string_view key, std::string_view value) {
  std::string const shown = quoted(value);
  return key.empty() ? "write " + shown : "write " + std::string(key) + " = " + shown;
}

file_position first_of_line(std::string_view line, file_position at) noexcept {
  std::uint32_t column = 1;
  for (char c : line) {
    if (!is_space(c)) break;
    ++column;
  }
  return {at.line, column, at.column > column ? at.column - column : 1};
}

// The quoted name in "cannot redefine existing integer 'a.b' as table".
std::string_view named(std::string_view said) noexcept {
  auto const begin = said.find('\'');
  auto const end = said.find('\'', begin == said.npos ? begin : begin + 1);
  return end == said.npos ? std::string_view() : said.substr(begin + 1, end - begin - 1);
}

syntax_error explain_value(std::string_view line, file_position at, assignment const& parts) {
  if (parts.key.empty() && trim(line).starts_with('['))
    return {at, "an array above this line has no closing ]", {}};
  if (parts.value.empty() || parts.value.starts_with('[') || parts.value.starts_with('{')) {
    auto const word = word_at(line, at.column);
    if (word.empty()) return {at, "this is no value", "texts stand in quotes, numbers are plain"};
    file_position const where{at.line, at.column, static_cast<std::uint32_t>(word.size())};
    return {where, "text needs quotes: " + write({}, word), {}};
  }
  if (parts.value == "True" || parts.value == "False" || parts.value == "TRUE" || parts.value == "FALSE") {
    return {parts.value_at, "true and false are written in lower case", {}};
  }
  return {parts.value_at, "text needs quotes: " + write(parts.key, parts.value), {}};
}

}  // namespace

syntax_error explain_syntax(std::string_view line, file_position at, std::string_view said) {
  assignment const parts = split(line, at);
  auto const says = [&](std::string_view part) { return said.find(part) != said.npos; };

  if (is_number_with_unit(parts.value)) {
    return {parts.value_at, "a number cannot have a unit: " + write(parts.key, parts.value), {}};
  }
  if (says("could not determine value type") || says("expected 'true'") || says("expected 'false'")) {
    return explain_value(line, at, parts);
  }
  if (says("cannot redefine")) {
    file_position const where = first_of_line(line, at);
    if (line.substr(where.column - 1).starts_with('[')) {
      return {{where.line, where.column, 999},
              "[" + std::string(named(said)) + "] is defined twice",
              "join the two tables"};
    }
    return {where, quoted(named(said)) + " is set twice", "keep one of them"};
  }
  if (says("literal string") || says("parsing string")) {
    if (says("escape sequence"))
      return {at, "\\ begins an escape sequence in a text in \"...\"", "write the text in '...', or \\\\"};
    file_position const where = parts.value.empty() ? at : parts.value_at;
    return {where, "a text has no closing quote", "it ends with the quote it began with, on the same line"};
  }
  if (says("parsing array") && says("end-of-file")) return {at, "an array has no closing ]", {}};
  if (says("parsing array"))
    return {at, "a comma is missing, or there is one too many", "write [\"a\", \"b\"]"};
  if (says("inline table")) {
    return {at, "{ ... } stands on one line, its parts separated by commas, with none after the last", {}};
  }
  if (says("maximum nested value depth")) return {at, "values are nested too deeply", "the limit is 32"};
  if (says("expected '='"))
    return {at, "KEY = VALUE is expected", "a key of several words has none between: use _"};
  if (says("expected a comment or whitespace") && says("','")) {
    return {at, "a line ends without a comma", "several values are an array: [\"a\", \"b\"]"};
  }
  if (says("bare key")) return {at, "a name is expected here", "names are of letters, digits, _ and -"};
  if (says("not representable")) {
    return {parts.value_at, std::string(named(said)) + " does not fit into 64 bits",
            "write a size with a unit, in quotes"};
  }
  if (says("table header")) return {at, "a table begins with [name] on a line of its own", {}};
  if (says("saw '/'") || says("saw ';'")) return {at, "this is no line of TOML", "a comment begins with #"};
  if (parts.value.empty() && !parts.key.empty()) return {at, quoted(parts.key) + " has no value", {}};

  constexpr std::string_view prefix = "Error while parsing ";
  auto const text = said.starts_with(prefix) ? said.substr(prefix.size()) : said;
  return {at, "syntax: " + std::string(text), {}};
}

}  // namespace gpumem::config
