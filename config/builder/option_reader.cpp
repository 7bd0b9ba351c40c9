// See option_reader.hpp.
#include "config/builder/option_reader.hpp"

#include "config/schema/schema.hpp"
#include "config/text/duration_text.hpp"
#include "config/text/size_text.hpp"
#include "core/base/text/bytes.hpp"

namespace gpumem::config {

std::uint64_t option_reader::duration(char const* key) const {
  return read_duration(word(key)).nanoseconds.value_or(~std::uint64_t{0});
}

// Zeros, words that mean "as ever", and defaults say nothing and are left out.
std::string option_reader::shown() const {
  std::string text;
  for (auto const& [key, held] : plan_.options) {
    auto const* const known = find_key("resource." + plan_.type, key);
    std::string_view const preset = known != nullptr ? known->preset : std::string_view();
    std::string value;
    if (auto const* size = std::get_if<size_value>(&held)) {
      std::uint64_t const bytes = size->resolve(free_, total_);
      if (bytes != 0 && write_size(*size) != preset) value = base::print_bytes(bytes).view();
    } else if (auto const* word = std::get_if<std::string>(&held)) {
      bool const usual = known != nullptr && known->kind == value_kind::duration && *word == preset;
      if (*word != "max" && *word != "auto" && !usual) value = *word;
    }
    if (!value.empty()) text += (text.empty() ? "" : ", ") + key + " " + value;
  }
  return text;
}

}  // namespace gpumem::config
