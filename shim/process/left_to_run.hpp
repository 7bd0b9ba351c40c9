// Whether the `gpumem run` above this process writes its report: with call sites it can tell more, as it
// may start a symbolizer, which this process must not. Asked once, at the end, maybe in a signal handler;
// no heap, no CUDA call.
#pragma once

namespace gpumem::shim {

// `stdout_fd`: negative if it is none, or not for us. Never where the run's report would go elsewhere than
// this process's: to other streams, or to names that hold values of this environment.
bool is_left_to_run(int stdout_fd) noexcept;

}  // namespace gpumem::shim
