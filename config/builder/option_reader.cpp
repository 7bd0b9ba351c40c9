// See option_reader.hpp.
#include "config/builder/option_reader.hpp"

#include "core/base/text/bytes.hpp"

namespace gpumem::config {

// Zeros and words that mean "as ever" say nothing and are left out.
std::string option_reader::shown() const {
  std::string text;
  for (auto const& [key, held] : plan_.options) {
    std::string value;
    if (auto const* size = std::get_if<size_value>(&held)) {
      std::uint64_t const bytes = size->resolve(free_, total_);
      if (bytes != 0) value = base::print_bytes(bytes).view();
    } else if (auto const* word = std::get_if<std::string>(&held)) {
      if (*word != "max" && *word != "auto") value = *word;
    }
    if (!value.empty()) text += (text.empty() ? "" : ", ") + key + " " + value;
  }
  return text;
}

}  // namespace gpumem::config
