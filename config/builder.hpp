// Plan + context -> chain. The only file that knows both the names of the configuration and the classes of core.
// `use` is called once, before the first request; `build` by the router on slow paths, with the context current.
#pragma once

#include <memory>

#include "config/plan.hpp"
#include "core/resource/chain.hpp"

namespace gpumem::config {

// The plan that build() reads from now on; it must outlive every chain.
void use(plan const& effective) noexcept;

// The chain of one route for one context, or null for passthrough. Throws driver::allocation_failed when memory that it
// takes at the start is not to be had.
std::unique_ptr<resource::chain> build(resource::habitat const& home);

}  // namespace gpumem::config
