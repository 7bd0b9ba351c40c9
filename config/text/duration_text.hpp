// "1 s", "250 ms", "2 min" to nanoseconds. Pure; used by the value reader and the builder. A duration is kept
// as it was written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpumem::config {

struct duration_reading {
  std::optional<std::uint64_t> nanoseconds;
  std::string problem;  // empty: good
  std::string remedy;
};

// From 1 ms to an hour.
duration_reading read_duration(std::string_view text);

}  // namespace gpumem::config
