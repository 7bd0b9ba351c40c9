// Patterns with * (any text, also with slashes), ? (one character) and [abc], [a-z], [!a]. Pure, any thread,
// no heap: called inside a walk over the loaded objects.
#pragma once

#include <string_view>

namespace gpumem::base {

bool matches(std::string_view pattern, std::string_view text) noexcept;

// "" or what is wrong with the pattern, for messages.
std::string_view glob_problem(std::string_view pattern) noexcept;

}  // namespace gpumem::base
