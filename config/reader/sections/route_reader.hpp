// The value of a route or of a rule's chain: names of resources, or "passthrough". Called by the readers of
// tables and rules; one thread, once a load.
#pragma once

#include <string>

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

// `where` names the value's place, "route.device" or "rule.0.chain"; `shown` is what messages call it.
void read_route(node const& value, std::string const& where, std::string const& shown, route_plan& route,
                draft& to, diagnostics& out);

}  // namespace gpumem::config
