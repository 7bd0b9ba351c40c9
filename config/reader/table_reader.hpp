// The tables of a file into a draft: which tables there are, and what each key in them means by schema.def.
// Called once a load, on one thread. Goes on after every error, so that all of them are found at once.
#pragma once

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

void read_tables(node const& root, draft& to, diagnostics& out);

}  // namespace gpumem::config
