// [[rule]] tables into the draft. Called by the table reader after the resources, as chains name them; one
// thread, once a load.
#pragma once

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

void read_rules(node const& rules, draft& to, diagnostics& out);

}  // namespace gpumem::config
