// The resources `limiting` of a plan, as budgets of core. Found for a whole device before any chain is
// made, because a limit also holds for calls that no chain serves. use_limits is called once, before the
// first request; the function it returns, by the router on slow paths.
#pragma once

#include "config/builder/option_reader.hpp"
#include "core/driver/request.hpp"
#include "core/resource/adaptors/budget.hpp"
#include "core/route/limits.hpp"

namespace gpumem::config {

// By this plan, which must outlive every request.
route::limit_maker use_limits(plan const& effective) noexcept;

// The budget of one resource `limiting`; throws driver::allocation_failed when host memory is short.
resource::budget& budget_of(option_reader const& options, int device, driver::memory_kind kind);

}  // namespace gpumem::config
