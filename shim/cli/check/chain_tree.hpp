// A plan as a tree of text: which resources serve which rule and route on a device, with their options. A
// share of the device is shown in bytes if its size is known. For `gpumem check`; pure.
#pragma once

#include <string>

#include "config/plan/plan.hpp"
#include "shim/cli/check/device_list.hpp"

namespace gpumem::cli {

std::string chain_tree(config::plan const& plan, device const& on);

}  // namespace gpumem::cli
