// How the router gets its chains: the function that config/builder hands in at the start, so that nothing
// here knows a configuration. Called on slow paths, on any thread.
#pragma once

#include <memory>

namespace gpumem::resource {
class chain;
struct chain_context;
}  // namespace gpumem::resource

namespace gpumem::route {

// Makes one chain of a context, home.number says which; null means "passthrough". Called once for each, on a
// slow path, with that context current. Handed in by config/builder. May throw driver::allocation_failed:
// passthrough, with a log.
using chain_factory = std::unique_ptr<resource::chain> (*)(resource::chain_context const& home);

}  // namespace gpumem::route
