// Text from a format string in fmt's language, checked at compile time. The only user of fmt beside spdlog
// in log.cpp: callers see fmt's declarations, and the formatter, which takes seconds to compile, is in
// format.cpp alone. Called by the report and the program gpumem, on any thread. Uses the heap; never on a
// hot path.
#pragma once

#include <fmt/core.h>

#include <string>

namespace gpumem::base {

std::string print_format(fmt::string_view text, fmt::format_args values);

template <typename... Values>
std::string format(fmt::format_string<Values...> text, Values const&... values) {
  return print_format(text, fmt::make_format_args(values...));
}

}  // namespace gpumem::base
