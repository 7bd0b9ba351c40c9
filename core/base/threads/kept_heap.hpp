// Heap that is touched early and held, for allocations that the program will wait for: given up just before
// them, its pages are there, and no system call is needed to get more. Any thread; at most one is held.
#pragma once

#include <cstddef>

namespace gpumem::base {

// `bytes` below what malloc maps by itself. Nothing where some is held already, as in a forked child.
void keep_heap(std::size_t bytes) noexcept;
// Nothing where none is held.
void give_up_kept_heap() noexcept;

}  // namespace gpumem::base
