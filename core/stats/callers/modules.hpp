// Which file an address of code belongs to, noted in the state page the first time an address of the file is
// seen, so that a report written later, or by another process, can name it. From /proc/self/maps, not from
// the loader, whose lock another thread may hold while it waits for this one. Any thread; no heap; a look-up
// of a known file takes no lock. A library that is unloaded and another one at its place are told apart only
// by their extents.
#pragma once

#include <cstdint>

#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

// Gives the tables of callers their place in the file; before the first use of the others. False: no page.
bool open_caller_tables() noexcept;

// Null for code that no file holds (generated at run time), without a page, and when the table is full.
module_entry const* module_of(void const* address) noexcept;

}  // namespace gpumem::stats
