// What a configuration may do that its author did not mean: allowed, so not an error, but worth a line. For
// `gpumem check`; pure.
#pragma once

#include <string>
#include <vector>

#include "config/plan/plan.hpp"
#include "shim/cli/check/device_list.hpp"

namespace gpumem::cli {

struct trap {
  std::string what;
  std::string remedy;
};

// On one device; on one of unknown size without those that depend on it.
std::vector<trap> find_traps(config::plan const& plan, device const& on);

}  // namespace gpumem::cli
