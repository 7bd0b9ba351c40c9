// [[rule]] tables into the draft. Called by the table reader after the resources, as chains name them; one
// thread, once a load.
#pragma once

#include "config/diagnostic.hpp"
#include "config/document.hpp"
#include "config/draft.hpp"

namespace gpumem::config {

void read_rules(node const& rules, draft& to, findings& out);

}  // namespace gpumem::config
