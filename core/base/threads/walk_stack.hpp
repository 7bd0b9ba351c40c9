// The call stack of this thread as return addresses, found by the tables that exceptions use; it ends where
// code has no tables (some generated code). For debugging resources, any thread, inside the program's
// calls; no heap. The unwinder uses _dl_find_object, which takes no lock (glibc 2.35 and later). Built with
// an older glibc it takes the loader's lock, which a thread under dlopen already holds and may take again.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace gpumem::base {

// The unwinder found _dl_find_object at run time: a walk that nobody asked for is made only then.
inline constinit std::atomic<bool> walks_take_no_lock{false};

// Fills `frames` from the frame that returns to `from` outwards; frames further in are ours. Only `from`
// itself when it is not on the stack. How many were written: at least one where there is room.
std::size_t walk_stack(void const* from, std::span<void const*> frames) noexcept;

}  // namespace gpumem::base
