// What this library keeps for each thread: a few bytes of static TLS, so that a hook never allocates to find
// them. Read and written by the thread itself only.
#pragma once

#include <cstdint>

namespace gpumem::shim {

struct thread_state {
  bool inside = false;                   // a hook is at work: CUDA calls made now are core's or the driver's
  std::uint32_t runtime_depth = 0;       // calls of the CUDA runtime that are hooked and still open
  std::uint16_t runtime_hook = 0;        // the outermost of them
  void const* runtime_caller = nullptr;  // who made it
};

extern constinit thread_local thread_state this_thread;

// Who asked: the caller of the runtime function when the call came through one, else the hook's own caller.
inline void const* program_caller(void const* hook_caller) noexcept {
  return this_thread.runtime_depth != 0 ? this_thread.runtime_caller : hook_caller;
}

// What the program itself called: that runtime function, or the hook.
inline std::uint16_t program_call(std::uint16_t hook) noexcept {
  return this_thread.runtime_depth != 0 ? this_thread.runtime_hook : hook;
}

}  // namespace gpumem::shim
