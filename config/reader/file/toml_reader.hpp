// TOML text -> document. The only user of the TOML library, so that one file pays for compiling it.
// Called once a load, on one thread, after check_text; throws nothing but std::bad_alloc.
#pragma once

#include <string_view>

#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

// False on a syntax error, which is then in `out`; the parser stops at the first.
bool read_toml(std::string_view text, node& root, diagnostics& out);

}  // namespace gpumem::config
