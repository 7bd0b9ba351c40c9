// See format.hpp.
// The one file that compiles fmt's formatter.
// It is compiled for size: nothing here is on a hot path.
#include "core/base/text/format.hpp"

#include <fmt/format.h>

namespace gpumem::base {

std::string print_format(fmt::string_view text, fmt::format_args values) {
  return fmt::vformat(text, values);
}

}  // namespace gpumem::base
