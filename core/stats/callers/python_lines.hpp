// Lines of Python code that call sites lie under, noted in the state page with their text, which is gone when
// the program is. The first call of a line takes the page's lock; later ones look it up. Used by samples,
// `tracking` and refusals, any thread, inside the program's calls. No heap.
#pragma once

#include <cstdint>
#include <span>

#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

using python_line = std::uint16_t;  // its place in the page's table, from 1 on; 0: none

// Where this thread is: innermost first, at most most_python_lines. How many were written. None without an
// interpreter whose frames can be read, and of lines that the table has no place for.
std::size_t python_lines_here(std::span<python_line> lines) noexcept;

// --- for tests ---
python_line python_line_of(std::string_view file, std::string_view function, std::uint32_t line) noexcept;

}  // namespace gpumem::stats
