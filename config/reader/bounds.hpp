// How much of everything a configuration may hold: a bad file must be told in no time, and in the program
// under us too. All bounds are far beyond what a chain that anyone could follow needs, and what the report
// has room for. Read by every reader of lists.
#pragma once

#include <cstddef>
#include <string>

#include "config/text/diagnostic.hpp"

namespace gpumem::config {

inline constexpr std::size_t most_names = 64;       // of one chain
inline constexpr std::size_t most_bins = 64;        // of one binning
inline constexpr std::size_t most_branches = 16;    // of one fallback
inline constexpr std::size_t most_resources = 256;  // tables [resource.NAME]
inline constexpr std::size_t most_devices = 64;     // tables [device.N]
inline constexpr std::size_t most_parts = 96;       // of one chain as it is built, bins and branches included

// How many of `count` are to be read. More than `most` is an error.
inline std::size_t bounded(std::size_t count, std::size_t most, std::string const& what, place at,
                           findings& out) {
  if (count <= most) return count;
  out.error("E219", at, std::to_string(count) + " " + what + " are too many",
            "at most " + std::to_string(most));
  return most;
}

}  // namespace gpumem::config
