// Makes foreign text safe for a terminal: names, arguments, keys and figures from a program, a file or a
// page of another version. Control characters (those above 0x7F too: U+009B begins a colour or a cursor
// movement), characters that turn the direction of writing, and bytes that are no UTF-8 become '?'. Pure;
// any thread.
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
