// Plan + context -> chain. The only file that knows both the names of the configuration and the classes of
// core. use_plan is called once, before the first request; the function it returns, by the router on slow
// paths, with the context current.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "config/plan/plan.hpp"
#include "core/route/router.hpp"
#include "core/route/rules/rules.hpp"

namespace gpumem::config {

// Returns what makes the chain of one route for one context, or null for passthrough, by this plan, which
// must outlive every chain. It throws driver::allocation_failed when memory that a chain takes at the start
// is not to be had.
route::chain_factory use_plan(plan const& effective) noexcept;

// Whether the chain of device memory may be made before anything is asked of it: it takes nothing then, opens
// no file, and its sizes do not depend on what is free.
bool may_build_ahead(plan const& effective) noexcept;

// Its rules; null: none. `calls`: the hooked functions by number. Chains have the numbers by which the
// factory knows them.
std::unique_ptr<route::rule_set> make_rules(plan const& effective, std::span<std::string_view const> calls);

}  // namespace gpumem::config
