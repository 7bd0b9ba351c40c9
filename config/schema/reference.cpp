// Writes the reference of the configuration as Markdown; see reference.hpp. Pure, at build time only.
// Whatever it says comes from schema.def, so that the page and the parser cannot differ.
#include "config/schema/reference.hpp"

#include "config/schema/schema.hpp"
#include "config/text/suggest.hpp"
#include "core/base/text/bytes.hpp"

namespace gpumem::config {
namespace {

std::string code(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string codes(std::string_view words) {
  std::string result;
  for (auto word : split_words(words)) result += (result.empty() ? "" : ", ") + code(word);
  return result;
}

std::string values_of(key_info const& key) {
  std::string text;
  switch (key.kind) {
    case value_kind::size:
      text = "size";
      break;
    case value_kind::device_size:
      text = "size or percentage";
      break;
    case value_kind::duration:
      return "duration, 1 ms to 60 min, or " + codes(key.words);
    case value_kind::integer:
      text = std::to_string(key.lowest) +
             (key.lowest == key.highest ? "" : " to " + std::to_string(key.highest));
      return key.words.empty() ? text : text + ", or " + codes(key.words);
    case value_kind::choice:
      return codes(key.words);
    case value_kind::pattern:
      text = "file name with placeholders";
      break;
    case value_kind::line:
      return "pattern of a line";
    case value_kind::glob:
      return "pattern with `*`, `?`, `[a-z]`";
    case value_kind::name:
      return "text";
    case value_kind::globs:
      return "array of patterns with `*`, `?`, `[a-z]`";
    case value_kind::boolean:
      return codes("true|false");
    case value_kind::chain:
      text = "array of resource names";
      break;
    case value_kind::chains:
      return "array of arrays of resource names";
    case value_kind::bins:
      return "array of tables";
  }
  auto const shown = [](std::int64_t bytes) {
    return std::string(base::print_exact_bytes(static_cast<std::uint64_t>(bytes)).view());
  };
  if (key.highest > 0) {
    text += ", " + shown(key.lowest) + " to " + shown(key.highest);
  } else if (key.lowest > 0) {
    text += ", at least " + shown(key.lowest);
  }
  return key.words.empty() ? text : text + ", or " + codes(key.words);
}

void write_keys(std::string& out, std::string_view table) {
  out += "| key | values | default | meaning |\n|---|---|---|---|\n";
  for (auto const* key : keys_of(table)) {
    std::string const preset = key->preset.empty() ? "none"
                               : key->required()   ? "required"
                                                   : code(key->preset);
    out += "| " + code(key->name) + " | " + values_of(*key) + " | " + preset + " | " +
           std::string(key->meaning) + " |\n";
  }
  out += "\n";
}

std::string_view stands(role part) noexcept {
  switch (part) {
    case role::driver:
      return "A driver, the last of its chain; in chains";
    case role::junction:
      return "Last of its chain, with chains of its own; in chains";
    case role::adaptor:
      break;
  }
  return "Needs a resource after it; in chains";
}

constexpr std::string_view head =
    "# Configuration reference\n\n"
    "Generated from `schema.def` by the target `config_reference`; do not edit.\n\n"
    "Sizes: `\"512 MiB\"` (KiB, MiB, GiB, TiB: powers of 1024), `\"70 GB\"` (kB, MB, GB, TB: powers of "
    "1000), or an\n"
    "integer of bytes. Percentages: `\"50 % of free\"` or `\"90 % of total\"` of the device's memory at "
    "first use.\n"
    "File names: `%e` program, `%p` process id, `%h` host, `%r` MPI rank, `%x` exec/fork number, `%q{VAR}` a "
    "variable,\n"
    "`%%` a percent sign.\n\n";

}  // namespace

std::string reference_text() {
  std::string out(head);
  out += "## Top of the file\n\n";
  write_keys(out, "");
  for (auto const& table : all_tables()) {
    out += "## " + code(table.form) + "\n\n" + std::string(table.meaning) + "\n\n";
    if (table.name == "resource") {
      for (auto const& type : all_types()) {
        out += "### type " + code(type.name) + "\n\n" + std::string(type.meaning) + ". ";
        if (!type.needs.empty()) out += "Needs " + std::string(type.needs) + ". ";
        out += std::string(stands(type.part)) + " of " + codes(type.routes) + ".\n\n";
        std::string const keys = "resource." + std::string(type.name);
        if (!keys_of(keys).empty()) write_keys(out, keys);
      }
    } else if (!keys_of(table.name).empty()) {
      write_keys(out, table.name);
    }
  }
  out += "## Environment\n\n| variable | values | meaning |\n|---|---|---|\n";
  for (auto const& variable : all_variables()) {
    out += "| " + code(variable.name) + " | " + (variable.words.empty() ? "text" : codes(variable.words)) +
           " | " + std::string(variable.meaning) + " |\n";
  }
  out += "\nOrder: a variable over the file over the default.\n";
  return out;
}

}  // namespace gpumem::config
