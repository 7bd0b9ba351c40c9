// Who the calling thread is: a small number, the least that no other thread has, and an identity that no
// thread ever had before. Of an identity anybody can tell whether its thread is gone, so that what was kept
// for that thread alone may be another's. Given when a thread is attached and ended when it ends
// (resource/pools/cache/thread_slots). Any thread; no lock, no heap.
#pragma once

#include <cstdint>

namespace gpumem::base {

using thread_identity = std::uint64_t;
inline constexpr thread_identity nobody = 0;

// `nobody` before it began and after it ended.
inline constinit thread_local thread_identity this_thread = nobody;

// The calling thread has an identity from now on; its number.
std::uint32_t begin_thread() noexcept;
// It has none, and will do nothing more in the name of it.
void end_thread() noexcept;
// In a forked child: this is not the parent's thread. Nobody else gets its number.
void forget_thread() noexcept;

bool is_gone(thread_identity who) noexcept;

}  // namespace gpumem::base
