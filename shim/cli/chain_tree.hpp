// A plan as a tree of text: which resources serve which route, with their options. For `gpumem check`; pure.
#pragma once

#include <string>

#include "config/plan.hpp"

namespace gpumem::cli {

std::string chain_tree(config::plan const& plan);

}  // namespace gpumem::cli
