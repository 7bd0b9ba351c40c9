// How a line of the log looks, in spdlog's pattern language: "[%Y-%m-%d %H:%M:%S.%e] [%l] %v". Parsed for
// the configuration, which names what is wrong in a pattern (spdlog prints an unknown flag as it stands),
// and for the log, which fills it in. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpumem::base {

// "gpumem: warning: text". %w, ours alone, is "warning: " or "error: ", and nothing for lower levels.
inline constexpr std::string_view default_log_pattern = "%n: %w%v";

struct log_pattern_part {
  enum class side { left, right, center };  // where the blanks stand

  char flag = 0;  // 0: `text` as it is
  std::string text;
  unsigned width = 0;
  side blanks = side::left;
  bool is_cut = false;  // to the width
};

struct log_pattern {
  std::vector<log_pattern_part> parts;
  std::string error;  // what, the limit and the remedy; empty: good

  bool tells_time() const noexcept;  // so a clock is read for each line
};
// What is wrong with it is in `error`.
log_pattern parse_log_pattern(std::string_view text);

}  // namespace gpumem::base
