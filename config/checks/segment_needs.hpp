// What a resource needs from those below it: blocks, or segments that it cuts into blocks itself. One
// answer for the checks, which refuse what cannot stand below, and for the builder. Pure.
#pragma once

#include <string_view>

#include "config/plan/plan.hpp"

namespace gpumem::config {

// What stands below these never sees a request of the program.
inline bool cuts_segments(std::string_view type) noexcept {
  return type == "pool" || type == "arena" || type == "fixed_size";
}

// The resource itself, or one of its bins, or of theirs.
bool asks_for_segments(plan const& of, resource_plan const& resource, int device);

}  // namespace gpumem::config
