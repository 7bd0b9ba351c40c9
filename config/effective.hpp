// The configuration in effect as TOML, each value with its origin: for the report, `gpumem check` and bug
// reports. Called once a load; pure. The text is itself a valid file that means the same.
#pragma once

#include <string>

#include "config/plan/plan.hpp"

namespace gpumem::config {

std::string effective_text(plan const& effective);

}  // namespace gpumem::config
