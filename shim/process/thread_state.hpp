// What this library keeps for each thread: a few bytes of static TLS, so that a hook never allocates to find
// them. Read and written by the thread itself only.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpumem::shim {

struct thread_state {
  // Whether hooks work here. In a host function of a stream a driver refuses every call, and it runs these on
  // threads of its own: so each thread is asked about once, at its first call.
  enum class hooks : std::uint8_t {
    unasked,
    may_work,
    at_work,  // one does: CUDA calls made now are core's or the driver's
  };
  hooks here = hooks::unasked;
  std::uint32_t runtime_depth = 0;       // calls of the CUDA runtime that are hooked and still open
  bool ends = false;                     // it has called exit, and may do so again from a handler
  bool execs = false;                    // it is in an exec, and holds the turn to write the report
  std::uint16_t runtime_hook = 0;        // the outermost of them
  void const* runtime_caller = nullptr;  // who made it
  // The runtime has set itself up on this thread with this context, when route::changes() was
  // `runtime_since`.
  CUcontext runtime_context = nullptr;
  std::uint64_t runtime_since = 0;
  // The chain's answer to a request that the runtime is about to make again, so that it takes note of the
  // error.
  CUresult refused = CUDA_SUCCESS;
  // The bytes of one that no chain serves, which is not to be asked again; 0: none.
  std::uint64_t passed = 0;

  bool is_inside() const noexcept { return here == hooks::at_work; }
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
