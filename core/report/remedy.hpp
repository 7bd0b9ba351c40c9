// What to try against an allocation that failed: one sentence, from who refused it and what was cached then.
// Used while a document is made, once a failure; pure.
#pragma once

#include <string>
#include <string_view>

#include "core/stats/snapshot.hpp"

namespace gpumem::report {

// "driver", "limit", "maximum", "largest_block", "host_memory".
std::string_view refused_by(stats::failure_note const& failure) noexcept;

// Empty for codes other than out of memory.
std::string remedy_for(stats::failure_note const& failure);

}  // namespace gpumem::report
