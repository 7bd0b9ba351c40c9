// Whether the process of a state page is alive. A pid is valid in its PID namespace only: seen from
// outside, a program in a container has another number. Used by `gpumem`; reads /proc, no heap.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace gpumem::stats {

// `elsewhere`: of a namespace whose processes cannot all be seen from here.
enum class process_life { ended, lives, elsewhere };

// Of the process that called itself `pid` in `pid_namespace` (0: not known, taken for ours).
process_life life_of(pid_t pid, std::uint64_t start_ticks, std::uint64_t pid_namespace) noexcept;

// As the head of a page tells it; 0 when it cannot be read.
std::uint64_t namespace_of_page(char const* path) noexcept;

}  // namespace gpumem::stats
