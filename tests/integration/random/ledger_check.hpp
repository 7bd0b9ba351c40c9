// The ledger of a preloaded library against what the simulated driver knows, to the byte and by device, at a
// moment when no thread is in a CUDA call: at a barrier, or when the others have ended. Reads the state page
// of this very process from GPUMEM_STATE_DIR; without one (a plain run) there is nothing to compare. Any
// thread.
#pragma once

namespace random_program {

// Each difference is a fault, and is said; `moment` tells which moment it was.
void check_ledger(int devices, char const* moment);

}  // namespace random_program
