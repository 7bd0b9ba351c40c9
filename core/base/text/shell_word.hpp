// One word of a command line that a person copies out of a message into a shell. Pure; any thread. What a
// terminal must not obey is made printable by the caller.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/text/bytes.hpp"

namespace gpumem::base {

// The shell reads it as it is.
inline bool needs_no_quotes(std::string_view word) noexcept {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_./=,:@%+-").find(c) != std::string_view::npos;
  });
}

inline std::string shell_word(std::string_view word) {
  if (needs_no_quotes(word)) return std::string(word);
  std::string quoted = "'";
  for (char const c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace gpumem::base
