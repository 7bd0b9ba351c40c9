// The call stack of this thread as return addresses, by the tables that exceptions use. For debugging
// resources, on any thread, inside the program's calls: takes nothing from the heap. The unwinder finds
// tables by _dl_find_object, which takes no lock (glibc 2.35 and later); with an older glibc at build time it
// takes the loader's, which a thread that runs under dlopen already holds and may take again. Where code has
// no tables (some generated code) the walk ends.
#pragma once

#include <cstddef>
#include <span>

namespace gpumem::base {

// Fills `frames` from the frame that returns to `from` outwards; frames further in are ours. Only `from`
// itself when it is not on the stack. How many were written: at least one where there is room.
std::size_t walk_stack(void const* from, std::span<void const*> frames) noexcept;

}  // namespace gpumem::base
