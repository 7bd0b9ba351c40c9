// What the program calls its ranges by NVTX: domains and strings that it registered, and messages in each of
// their forms. Handles are those of a tool behind us where there is one, else places in tables here; what is
// in no table, or comes when a table is full, has no name and does no harm. Any thread; no heap; a
// registration takes a lock.
#pragma once

#include "shim/phases/nvtx_abi.hpp"
#include "shim/phases/phase_scope.hpp"

namespace gpumem::shim::nvtx {

// What the program gets: `theirs`, or one of ours where that is null.
domain add_domain(char const* name, domain theirs) noexcept;
registered add_string(char const* text, registered theirs) noexcept;

// A handle of ours.
bool is_own_domain(domain handle) noexcept;
bool is_own_string(registered handle) noexcept;

struct utf8_text {
  char text[512];
};
// Null stays null.
utf8_text narrow(wchar_t const* text) noexcept;

phases::stack_of stack_of_domain(domain of) noexcept;
phases::phase_name name_of(domain of, char const* message) noexcept;
phases::phase_name name_of(domain of, wchar_t const* message) noexcept;
phases::phase_name name_of(domain of, attributes const* event) noexcept;

}  // namespace gpumem::shim::nvtx
