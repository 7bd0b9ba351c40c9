// Reads sizes, integers, choices and patterns; see value_reader.hpp. One thread, once a load.
// Messages carry the value, the limit and the remedy; the limits come from schema.def alone.
#include "config/reader/values/value_reader.hpp"

#include "config/text/duration_text.hpp"
#include "config/text/size_text.hpp"
#include "config/text/suggest.hpp"
#include "core/base/files/file_pattern.hpp"
#include "core/base/log/log_pattern.hpp"
#include "core/base/text/bytes.hpp"
#include "core/base/text/glob.hpp"

namespace gpumem::config {
namespace {

std::string_view wanted(value_kind kind) noexcept {
  switch (kind) {
    case value_kind::size:
      return "a size";
    case value_kind::device_size:
      return "a size or a percentage";
    case value_kind::duration:
      return "a duration";
    case value_kind::integer:
      return "an integer";
    case value_kind::choice:
    case value_kind::pattern:
    case value_kind::line:
    case value_kind::glob:
    case value_kind::name:
      return "a string";
    case value_kind::boolean:
      return "true or false";
    case value_kind::chain:
      return "a chain";
    case value_kind::chains:
      return "an array of chains";
    case value_kind::bins:
      return "an array of bins";
    case value_kind::globs:
      return "an array of patterns";
  }
  return "a value";
}

std::string example(key_info const& key) {
  switch (key.kind) {
    case value_kind::size:
      return "write \"256 KiB\" or bytes as an integer";
    case value_kind::device_size:
      return "write \"512 MiB\", \"50 % of free\" or bytes as an integer";
    case value_kind::duration:
      return "write \"1 s\" or \"250 ms\"";
    case value_kind::integer:
      return key.words.empty() ? "write a whole number without quotes"
                               : "write \"" + std::string(key.words) + "\" or a whole number without quotes";
    case value_kind::boolean:
      return "write true or false, without quotes";
    case value_kind::choice:
      return "one of: " + joined(split_words(key.words));
    default:
      return "write a text in quotes";
  }
}

void wrong_type(key_info const& key, node const& value, std::string_view shown, diagnostics& out) {
  out.error("E203", value.at,
            std::string(shown) + " must be " + std::string(wanted(key.kind)) + ", not " +
                std::string(kind_name(value.type)),
            example(key));
}

bool in_range(key_info const& key, std::uint64_t number) noexcept {
  return number >= static_cast<std::uint64_t>(key.lowest) &&
         (key.highest == 0 || number <= static_cast<std::uint64_t>(key.highest));
}

std::optional<option> read_integer(key_info const& key, node const& value, std::string_view shown,
                                   diagnostics& out) {
  if (value.type == node::kind::string && holds_word(key.words, value.text)) return value.text;
  if (value.type != node::kind::integer) {
    wrong_type(key, value, shown, out);
    return std::nullopt;
  }
  if (value.integer < key.lowest || (key.highest != 0 && value.integer > key.highest)) {
    out.error("E206", value.at,
              std::string(shown) + " = " + std::to_string(value.integer) + " is out of range",
              "it is " + std::to_string(key.lowest) + " to " + std::to_string(key.highest));
    return std::nullopt;
  }
  return value.integer;
}

std::optional<option> read_size_value(key_info const& key, node const& value, std::string_view shown,
                                      diagnostics& out) {
  size_value size;
  if (value.type == node::kind::integer) {
    if (value.integer < 0) {
      out.error("E210", value.at, std::string(shown) + " = " + std::to_string(value.integer) + " is negative",
                "a size is 0 or more");
      return std::nullopt;
    }
    size.bytes = static_cast<std::uint64_t>(value.integer);
  } else if (value.type == node::kind::string) {
    if (holds_word(key.words, value.text)) return value.text;
    auto reading = read_size(value.text, key.kind == value_kind::device_size);
    if (!reading.value) {
      auto const guess = did_you_mean(value.text, split_words(key.words));
      out.error(reading.code, value.at, reading.problem, guess.empty() ? reading.remedy : guess);
      return std::nullopt;
    }
    size = *reading.value;
  } else {
    wrong_type(key, value, shown, out);
    return std::nullopt;
  }
  bool const bytes = size.kind == size_value::unit::bytes;
  bool const nothing = bytes ? size.bytes == 0 : size.percent <= 0;
  if (bytes ? !in_range(key, size.bytes) : (nothing && key.lowest > 0)) {
    auto const shown_bytes = [](std::int64_t number) {
      return std::string(base::print_exact_bytes(static_cast<std::uint64_t>(number)).view());
    };
    std::string remedy = key.highest == 0
                             ? "it is at least " + shown_bytes(key.lowest)
                             : "it is " + shown_bytes(key.lowest) + " to " + shown_bytes(key.highest);
    if (key.name == "alignment" && size.bytes < static_cast<std::uint64_t>(key.lowest))
      remedy = "every block is aligned to " + shown_bytes(key.lowest) + " already: remove it";
    if (nothing && key.preset.empty()) remedy = "leave " + std::string(key.name) + " out for no limit";
    out.error("E206", value.at, std::string(shown) + " = " + write_size(size) + " is out of range", remedy);
    return std::nullopt;
  }
  return size;
}

std::optional<option> read_duration_value(key_info const& key, node const& value, std::string_view shown,
                                          diagnostics& out) {
  if (value.type != node::kind::string) {
    wrong_type(key, value, shown, out);
    return std::nullopt;
  }
  if (holds_word(key.words, value.text)) return value.text;
  auto const reading = read_duration(value.text);
  if (reading.nanoseconds) return value.text;
  auto const guess = did_you_mean(value.text, split_words(key.words));
  out.error("E222", value.at, std::string(shown) + ": " + reading.problem,
            guess.empty() ? reading.remedy : guess);
  return std::nullopt;
}

std::optional<option> read_boolean(key_info const& key, node const& value, std::string_view shown,
                                   diagnostics& out) {
  if (value.type == node::kind::boolean) return value.truth;
  wrong_type(key, value, shown, out);
  return std::nullopt;
}

std::string text_problem(key_info const& key, std::string_view text) {
  if (key.kind == value_kind::glob) return std::string(base::glob_problem(text));
  if (key.kind == value_kind::name)
    return text.empty() ? "the name is empty; write the one by which the program asks" : "";
  if (key.kind == value_kind::line) return base::parse_log_pattern(text).error;
  return key.table == "log" ? log_file_problem(text) : pattern_problem(text, key.words);
}

std::optional<option> read_text(key_info const& key, node const& value, std::string_view shown,
                                diagnostics& out) {
  if (value.type != node::kind::string) {
    wrong_type(key, value, shown, out);
    return std::nullopt;
  }
  auto const words = split_words(key.words);
  if (holds_word(key.words, value.text)) return value.text;
  if (key.kind != value_kind::choice) {
    std::string const problem = text_problem(key, value.text);
    if (problem.empty()) return value.text;
    out.error("E213", value.at, std::string(shown) + ": " + problem);
    return std::nullopt;
  }
  auto const guess = did_you_mean(value.text, words);
  out.error("E204", value.at, std::string(shown) + " = " + quoted(value.text) + " is unknown",
            (guess.empty() ? "" : guess + "  ") + "known values: " + joined(words));
  return std::nullopt;
}

}  // namespace

std::string_view kind_name(node::kind kind) noexcept {
  switch (kind) {
    case node::kind::table:
      return "a table";
    case node::kind::array:
      return "an array";
    case node::kind::string:
      return "a string";
    case node::kind::integer:
      return "an integer";
    case node::kind::floating:
      return "a floating-point number";
    case node::kind::boolean:
      return "a boolean";
    case node::kind::date_time:
      return "a date";
  }
  return "a value";
}

std::optional<option> read_value(key_info const& key, node const& value, std::string_view shown,
                                 diagnostics& out) {
  switch (key.kind) {
    case value_kind::integer:
      return read_integer(key, value, shown, out);
    case value_kind::size:
    case value_kind::device_size:
      return read_size_value(key, value, shown, out);
    case value_kind::duration:
      return read_duration_value(key, value, shown, out);
    case value_kind::choice:
    case value_kind::pattern:
    case value_kind::line:
    case value_kind::glob:
    case value_kind::name:
      return read_text(key, value, shown, out);
    case value_kind::boolean:
      return read_boolean(key, value, shown, out);
    case value_kind::chain:
    case value_kind::chains:
    case value_kind::bins:
    case value_kind::globs:
      break;  // have readers of their own
  }
  return std::nullopt;
}

std::optional<option> preset_value(key_info const& key) {
  if (key.preset.empty() || key.required()) return std::nullopt;
  if (holds_word(key.words, key.preset) || key.kind == value_kind::pattern || key.kind == value_kind::line ||
      key.kind == value_kind::duration)
    return std::string(key.preset);
  if (key.kind == value_kind::boolean) return key.preset == "true";
  if (key.kind == value_kind::integer) {
    std::int64_t number = 0;
    for (char c : key.preset) number = number * 10 + (c - '0');
    return number;
  }
  auto const reading = read_size(key.preset, true);
  return reading.value ? std::optional<option>(*reading.value) : std::nullopt;
}

std::string log_file_problem(std::string_view pattern) {
  if (pattern == "stderr") return {};
  if (pattern.empty()) return "the file name is empty; write \"stderr\" for no file";
  if (pattern == "none") return "\"none\" is no file; write level = \"off\" for no messages";
  if (base::is_standard_stream(pattern) || pattern == "/dev/stdout")
    return quoted(pattern) + " is the program's own output; write \"stderr\" or the name of a file";
  return base::expand_pattern(pattern, {}).error;
}

std::string pattern_problem(std::string_view pattern, std::string_view words) {
  if (holds_word(words, pattern)) return {};
  if (base::is_standard_stream(pattern) || pattern == "none")
    return quoted(pattern) + " is no file here; write the name of one";
  if (pattern.empty())
    return std::string("the file name is empty") +
           (holds_word(words, "none") ? "; write \"none\" for no file" : "");
  return base::expand_pattern(pattern, {}).error;
}

}  // namespace gpumem::config
