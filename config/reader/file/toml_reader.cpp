// Turns the tables of toml++ into plain nodes, in the order of the file; see toml_reader.hpp. One thread,
// once a load. Recursion is bounded: check_text limits dotted keys, the parser limits nested values.
#include "config/reader/file/toml_reader.hpp"

#include <algorithm>

#include "config/reader/file/source_file.hpp"
#include "config/text/syntax_text.hpp"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_SIMD 0
#define TOML_HEADER_ONLY 1
// By std::from_chars: a string stream brings the locales of the C++ library into the preload library.
#define TOML_FLOAT_CHARCONV 1
#define TOML_MAX_NESTED_VALUES 32
// The parser asserts what a file may violate ("[" and then no name). Debug builds would abort the program,
// and with NDEBUG the compiler is told to assume it, which is worse. Without both, the parser's own error
// branch is taken.
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

namespace gpumem::config {
namespace {

static_assert(TOML_MAX_NESTED_VALUES == deepest_nesting);

file_position position_of(toml::source_region const& region) {
  constexpr std::uint32_t to_end_of_line = 9999;
  bool const one_line = region.begin.line == region.end.line;
  std::uint32_t const length =
      one_line ? region.end.column - std::min(region.begin.column, region.end.column) : to_end_of_line;
  return {region.begin.line, region.begin.column, std::max<std::uint32_t>(length, 1)};
}

node convert(toml::node const& from) {
  node to;
  to.at = position_of(from.source());
  switch (from.type()) {
    case toml::node_type::table: {
      for (auto&& [key, value] : *from.as_table()) {
        to.children.push_back(convert(value));
        to.children.back().key = std::string(key.str());
        to.children.back().key_at = position_of(key.source());
      }
      auto const before = [](node const& a, node const& b) {
        return std::pair(a.key_at.line, a.key_at.column) < std::pair(b.key_at.line, b.key_at.column);
      };
      std::stable_sort(to.children.begin(), to.children.end(), before);
      break;
    }
    case toml::node_type::array:
      to.type = node::kind::array;
      for (auto const& value : *from.as_array()) to.children.push_back(convert(value));
      break;
    case toml::node_type::string:
      to.type = node::kind::string;
      to.text = from.as_string()->get();
      break;
    case toml::node_type::integer:
      to.type = node::kind::integer;
      to.integer = from.as_integer()->get();
      break;
    case toml::node_type::floating_point:
      to.type = node::kind::floating;
      break;
    case toml::node_type::boolean:
      to.type = node::kind::boolean;
      to.truth = from.as_boolean()->get();
      break;
    default:
      to.type = node::kind::date_time;
      break;
  }
  return to;
}

std::string_view line_at(std::string_view text, std::uint32_t& line) {
  for (std::uint32_t now = 1;; ++now) {
    auto const end = text.find('\n');
    if (now == line || end == text.npos) {
      line = now;  // a position behind the last line becomes that line's
      return text.substr(0, end);
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace

bool read_toml(std::string_view text, node& root, diagnostics& out) {
  auto const parsed = toml::parse(text, std::string_view());
  if (parsed) {
    root = convert(parsed.table());
    return true;
  }
  auto const& error = parsed.error();
  file_position at = position_of(error.source());
  std::string_view const line = line_at(text, at.line);
  syntax_error const plain = explain_syntax(line, at, error.description());
  out.error("E101", plain.at, plain.text, plain.note);
  return false;
}

}  // namespace gpumem::config
