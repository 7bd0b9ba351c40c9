// Checks that look at more than one value: sizes against each other, chains, bins, what is used. Codes E2xx
// and E3xx. Called once a load, after the tables were read; one thread. Names that were already reported as
// broken are skipped.
#pragma once

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"

namespace gpumem::config {

// Fills in defaults and turns exponents into bins on the way.
void validate(draft& all, diagnostics& out);

}  // namespace gpumem::config
