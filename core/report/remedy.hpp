// What to try against a failed allocation, in one sentence: from who refused it, what was cached then, and
// its chain. Called while a document is made, once a failure; pure.
#pragma once

#include <string>
#include <string_view>

#include "core/stats/snapshot.hpp"

namespace gpumem::report {

// "driver", "limit", "maximum", "largest_block", "host_memory".
std::string_view refused_by(stats::failure_note const& failure) noexcept;

// Empty for codes other than out of memory. Names no option that the chain does not have, and none that could
// not help.
std::string remedy_for(stats::failure_note const& failure, stats::snapshot const& in);

}  // namespace gpumem::report
