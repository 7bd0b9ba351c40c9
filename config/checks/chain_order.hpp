// What may stand where in a chain: drivers and fallbacks last, adaptors over what they need, each resource in
// a route that it can serve. Called by the rules over chains, once a load; one thread.
#pragma once

#include "config/checks/chain_view.hpp"

namespace gpumem::config {

// With the chains of its fallbacks and the resources of its bins.
void check_order(chain_view const& chain);

}  // namespace gpumem::config
