// Upper bounds of a configuration's lists: a bad file must be refused quickly, also inside the program. Far
// beyond what a readable chain needs, and what the report has room for. Used by every reader of lists.
#pragma once

#include <cstddef>
#include <string>

#include "config/text/diagnostic.hpp"

namespace gpumem::config {

inline constexpr std::size_t most_names = 64;              // of one chain
inline constexpr std::size_t most_bins = 64;               // of one binning
inline constexpr std::size_t most_branches = 16;           // of one fallback
inline constexpr std::size_t most_resources = 256;         // tables [resource.NAME]
inline constexpr std::size_t most_devices = 64;            // tables [device.N]
inline constexpr std::size_t most_categories = 32;         // of [report.categories]
inline constexpr std::size_t most_category_patterns = 32;  // of one
inline constexpr std::size_t most_category_name = 32;      // letters
inline constexpr std::size_t most_parts = 96;  // of one chain as it is built, bins and branches included

// How many of `count` are to be read. More than `most` is an error.
inline std::size_t bounded(std::size_t count, std::size_t most, std::string const& what, file_position at,
                           diagnostics& out) {
  if (count <= most) return count;
  out.error("E219", at, std::to_string(count) + " " + what + " are too many",
            "at most " + std::to_string(most));
  return most;
}

}  // namespace gpumem::config
