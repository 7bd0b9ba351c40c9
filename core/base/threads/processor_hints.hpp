// What tells the processor that a thread only waits, or is about to write: hints, without an effect on what
// is computed. Any thread.
#pragma once

namespace gpumem::base {

// Between two looks at what another thread is about to change: the other half of the core gets on, and the
// cache line stays with who writes it.
inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A line that is read before it is written comes twice where another core has it: once to read, once more to
// own. GCC's __builtin_prefetch asks for ownership only with -mprfchw; processors without the instruction
// take it for a nop.
inline void prefetch_to_write(void const* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<char const*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

}  // namespace gpumem::base
