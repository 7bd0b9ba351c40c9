// The one way of foreign text to a terminal: names, arguments, keys and figures that a program, a file or a
// page of another version holds. Terminals obey control characters, those above 0x7F too (U+009B begins a
// colour or a cursor's way), and characters that turn the direction of writing make one text look like
// another. All of them, and bytes that are no UTF-8, become '?'. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace gpumem::base {

// Takes the next character from the front of `text`, which is not empty: itself, or "?".
std::string_view next_printable(std::string_view& text) noexcept;

// One line; the other keeps line ends and tabs.
std::string printable(std::string_view line);
std::string printable_lines(std::string_view text);

}  // namespace gpumem::base
