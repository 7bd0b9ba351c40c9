// How much of the host's memory the control groups of this process leave it. A batch system or a container
// gives a job a part of the host, which /proc/meminfo says nothing of, and the kernel kills whoever takes
// more. Both versions of the hierarchy, every group up to its root. Called by host_memory, on slow paths,
// from any thread, with no cancellation. No heap; what cannot be read limits nothing.
#pragma once

#include "core/upstream/host/host_memory.hpp"

namespace gpumem::upstream {

// In bytes; unlimited where there are none. `root`: what stands before /proc and /sys, nothing but in tests.
host_memory::amount measure_groups(char const* root = "") noexcept;

}  // namespace gpumem::upstream
