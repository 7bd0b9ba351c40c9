// Runs work that needs more stack than the program may have given this thread: 16 KiB is allowed, and
// reading a configuration or printing a report takes more. Switches to a stack of its own, except on the
// process's first stack while that has room, or where no memory is left for one. Used once at the start and
// once at the end; no heap.
#pragma once

#include <ucontext.h>

namespace gpumem::base {

// The functions of libc that change stacks. A sanitizer in the program interposes these names, and warns of
// them on the program's standard error: the preload library sets libc's own before the first call, in the
// thread that starts it.
struct stack_functions {
  decltype(&::getcontext) get;
  decltype(&::makecontext) make;
  decltype(&::swapcontext) swap;
};
inline stack_functions change_stack{&::getcontext, &::makecontext, &::swapcontext};

void with_room(void (*work)(void*) noexcept, void* argument) noexcept;

// `work` must not throw.
template <typename Work>
void with_room(Work work) noexcept {
  with_room([](void* argument) noexcept { (*static_cast<Work*>(argument))(); }, &work);
}

}  // namespace gpumem::base
