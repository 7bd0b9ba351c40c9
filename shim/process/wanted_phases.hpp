// The way from the start of the process up to shim/phases, which knows NVTX. One thread, once.
#pragma once

namespace gpumem::shim {

// [report] phases = true: ranges are asked for from here on. Defined in shim/phases/injection.cpp.
void ask_for_ranges() noexcept;

}  // namespace gpumem::shim
