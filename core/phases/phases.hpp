// Phases: parts of a program's work that it gives a name, by NVTX or by gpumem.h, and the memory that the
// process held meanwhile. Kept by name in the state page, so that a killed process's report has them; those
// that are open when a report is made count too. Called by the shim on any thread, before the first CUDA call
// as well: what comes before the page is moved into it. No heap, no driver call; a phase that begins or ends
// takes a lock, a request never does.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/phases/phase_names.hpp"

namespace gpumem::phases {

// Whose ranges are nested in each other: those of one domain of NVTX, or of gpumem.h. A number.
using stack_of = std::uint32_t;

// A phase of this thread, in the one that is open. False: so many are open that it is counted and not
// measured.
bool begin(phase_name const& name, stack_of which) noexcept;
// Ends the one that this thread began last; false: none is open, and nothing happens.
bool end(stack_of which) noexcept;
// How many of this thread are open.
int depth(stack_of which) noexcept;

// One that any thread may end. 0: see begin(). `note`: a number of the caller's to be kept with it.
std::uint64_t start(phase_name const& name, std::uint64_t note) noexcept;
// False: there is no such phase (any more). `note`: what start() was given.
bool stop(std::uint64_t phase, std::uint64_t& note) noexcept;

// A begin that must not be looked at (a signal handler in the middle of another), and its end: true if there
// was one.
void pass_over() noexcept;
bool was_passed_over() noexcept;

// The place of this thread's innermost phase in the table, from 1 on; where it has none, of the one that any
// thread began last. 0: none is open.
std::uint32_t innermost() noexcept;

// There is a state page, and a recording if one is made: called once by the start.
void page_opened() noexcept;

}  // namespace gpumem::phases
