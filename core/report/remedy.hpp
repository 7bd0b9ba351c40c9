// What to try against a failed allocation, in one sentence: from who refused it, what was cached then, and
// its chain. Called while a document is made, once a failure; pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/stats/snapshot.hpp"

namespace gpumem::report {

// "driver", "limit", "maximum", "largest_block", "host_memory".
std::string_view refused_by(stats::failure_note const& failure) noexcept;

// Of sampled sites, by their numbers: the library that asked, and where its code is, in a few words.
struct asking_code {
  std::string library, place;
};
using asking_codes = std::map<unsigned, asking_code>;

// Empty for codes other than out of memory. Names no option that the chain does not have, and none that could
// not help. Where one library held most, it names it, and the code behind it.
std::string remedy_for(stats::failure_note const& failure, stats::snapshot const& in,
                       asking_codes const& codes = {});

}  // namespace gpumem::report
