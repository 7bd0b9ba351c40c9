// Finds resources that would draw from themselves: through a chain, a bin or a chain of a fallback. Called by
// the rules over chains, once a load; one thread.
#pragma once

#include "config/checks/chain_view.hpp"

namespace gpumem::config {

void check_cycles(chain_view const& chain);

}  // namespace gpumem::config
