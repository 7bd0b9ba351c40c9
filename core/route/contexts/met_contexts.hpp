// All contexts that the program got from the driver, also those in which no hook ever saw an allocation:
// their work may use pinned memory that another context frees. Kept from before the start on; any thread.
#pragma once

#include <cuda.h>

namespace gpumem::route {

void context_met(CUcontext context) noexcept;   // made, or retained
void context_left(CUcontext context) noexcept;  // destroyed, or released for the last time
void forget_met_contexts() noexcept;            // in a forked child

// Calls `visit` with each, with no lock held. False where not all of them are known, or where `visit` was
// once.
bool each_met_context(bool (*visit)(CUcontext context)) noexcept;

}  // namespace gpumem::route
