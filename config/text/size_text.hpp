// "512 MiB", "50 % of free", "90 % of total" to size_value and back. Pure; used by the value reader and the
// effective configuration. A percentage is kept as it was written and becomes bytes when the device is known.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/plan/plan.hpp"

namespace gpumem::config {

struct size_reading {
  std::optional<size_value> value;
  char const* code = "E210";  // of the problem
  std::string problem;        // empty: good
  std::string remedy;
};

size_reading read_size(std::string_view text, bool percent_allowed);

// As it would be written in the file: "512 MiB", "1025", "50 % of free".
std::string write_size(size_value const& size);

}  // namespace gpumem::config
