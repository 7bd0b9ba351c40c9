// The variables that the process was started with, for a program that has emptied its environment since, as
// daemons and sandboxes do before they begin: what their user asked of gpumem still holds. Empty is one that
// has neither LD_PRELOAD nor any GPUMEM_* left; of any other what the program made of it is its wish. The
// texts still lie where the kernel put them. Asked at the first CUDA call and at the end, on any thread; no
// heap.
#pragma once

namespace gpumem::base {

extern constinit char const* first_variable;

// `variables` as a constructor is passed them, before the program runs.
inline void note_environment(char const* const* variables) noexcept {
  if (first_variable == nullptr && variables != nullptr) first_variable = *variables;
}

// As getenv; of an emptied environment, what is not in it now is what it was at the start.
char const* user_variable(char const* name) noexcept;
// As environ; of an emptied one the GPUMEM_* of the start.
char const* const* user_environment() noexcept;

}  // namespace gpumem::base
