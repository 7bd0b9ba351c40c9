// The program's heap, as the library uses it. Any thread, in the middle of functions that no unwinding
// can pass: a malloc that is a point of cancellation, as one that takes a semaphore or writes a log (Electric
// Fence, heap tracers), must not act on one here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "core/base/threads/uncancelled.hpp"

namespace gpumem::base::heap {

// Libc's own is no point of cancellation. Not known before the library's start.
inline constinit std::atomic<bool> is_libcs = false;

// Around a call of it, and around what uses it without a word, as the driver does: uncancelled(may_cancel()).
inline bool may_cancel() noexcept {
  return !is_libcs.load(std::memory_order_relaxed);
}

// Null where there is no room.
inline void* allocate(std::size_t bytes) noexcept {
  uncancelled const held(may_cancel());
  return std::malloc(bytes);
}
inline void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept {
  uncancelled const held(may_cancel());
  return std::calloc(count, bytes);
}
inline void release(void* memory) noexcept {
  uncancelled const held(may_cancel());
  std::free(memory);
}

}  // namespace gpumem::base::heap
