// The program's heap, as the library uses it. Any thread, in the middle of functions that no unwinding
// can pass: a malloc that is a point of cancellation, as one that takes a semaphore or writes a log (Electric
// Fence, heap tracers), must not act on one here.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace gpumem::base::heap {

// Libc's own is no point of cancellation. Not known before the library's start.
inline constinit std::atomic<bool> is_libcs = false;

// Around what uses it without a word, as the driver does. Costs a look where it is libc's.
class whole {
 public:
  whole() noexcept {
    if (holds_) [[unlikely]]
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  ~whole() {
    if (holds_) [[unlikely]]
      pthread_setcancelstate(before_, nullptr);
  }
  whole(whole const&) = delete;
  whole& operator=(whole const&) = delete;

 private:
  bool const holds_ = !is_libcs.load(std::memory_order_relaxed);
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Null where there is no room.
inline void* allocate(std::size_t bytes) noexcept {
  whole const call;
  return std::malloc(bytes);
}
inline void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept {
  whole const call;
  return std::calloc(count, bytes);
}
inline void release(void* memory) noexcept {
  whole const call;
  std::free(memory);
}

}  // namespace gpumem::base::heap
