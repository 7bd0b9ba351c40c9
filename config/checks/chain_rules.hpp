// Rules over chains and bins: names, cycles, what may stand where, bins that fit, resources that nothing
// uses. Called by validate, once a load; one thread.
#pragma once

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"

namespace gpumem::config {

void check_chains(draft& all, diagnostics& out);

}  // namespace gpumem::config
