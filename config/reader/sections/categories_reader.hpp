// Reads [report.categories]: names of the user's, each with patterns of libraries, functions and Python code.
// Called by the table reader, once a load; one thread. Their order is that of the file: the first that
// matches wins.
#pragma once

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

void read_categories(node const& table, draft& to, diagnostics& out);

}  // namespace gpumem::config
