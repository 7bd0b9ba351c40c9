// How a text report should look on the terminal behind a descriptor: colours or none, and how wide. Called
// by whoever writes one, also in the program's process; asks the kernel and the environment once, no heap.
#pragma once

#include "core/report/output/text.hpp"

namespace gpumem::report {

// Leaves `look` as it is where `descriptor` is no terminal. No colours under NO_COLOR (https://no-color.org:
// set and not empty) or TERM=dumb.
void look_at_terminal(text_options& look, int descriptor) noexcept;

// Columns of the terminal, at least 80; `otherwise` where it is none, or does not know.
std::size_t columns_of_terminal(int descriptor, std::size_t otherwise) noexcept;

}  // namespace gpumem::report
