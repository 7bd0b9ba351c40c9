// A call that begins or ends a phase, by whatever interface: not looked at in the middle of a hook of the
// same thread, as a signal handler's may be, and CUDA calls of a handler in the middle of this one are left
// to the driver. Any thread.
#pragma once

#include "core/phases/phases.hpp"
#include "shim/process/process.hpp"
#include "shim/process/thread_state.hpp"

namespace gpumem::shim {

// Stacks of ranges on a thread: gpumem.h's own, those of NVTX's default domain, and of each further one.
inline constexpr phases::stack_of own_stack = 1, default_domain_stack = 2, first_domain_stack = 3;

class phase_scope {
 public:
  phase_scope() noexcept : before_(this_thread.here) {
    if (*this) this_thread.here = thread_state::hooks::at_work;
  }
  ~phase_scope() { this_thread.here = before_; }
  phase_scope(phase_scope const&) = delete;
  phase_scope& operator=(phase_scope const&) = delete;
  explicit operator bool() const noexcept { return before_ != thread_state::hooks::at_work; }

 private:
  thread_state::hooks const before_;
};

inline bool phases_are_off() noexcept {
  return process::state.load(std::memory_order_relaxed) == process::life::off;
}

}  // namespace gpumem::shim
