// Sizes along a chain: what a resource takes in one piece must be no more than what those below it can ever
// give in one (blocks of 8 MiB over blocks of 5 MiB would serve nothing). Called by the rules over chains,
// once a load; one thread.
#pragma once

#include "config/checks/chain_view.hpp"

namespace gpumem::config {

// Only sizes in bytes are compared: of percentages `gpumem check` speaks when it knows the device.
void check_sizes(chain_view const& chain);

// How many parts it is built of: a binning in a bin of a binning, thirty times over, would be a thousand
// million.
void check_parts(chain_view const& chain);

}  // namespace gpumem::config
