// Copies a descriptor to a high number, so that the program's own descriptors keep the numbers they would
// have without us. Called by the shim when CUDA starts, on any thread. Must not make the kernel enlarge the
// table of descriptors: with several threads that waits for all processors (synchronize_rcu, 8 ms
// measured).
#pragma once

namespace gpumem::base {

// The copy is closed on exec. -1 where none can be had; errno stays as it was.
int copy_to_high_fd(int descriptor) noexcept;

}  // namespace gpumem::base
