// Which file a code address belongs to, noted in the state page when an address of the file is first seen,
// so that a later report, or another process, can name it. Asks what the loader keeps for unwinders, then
// /proc/self/maps, never the loader's list: its lock may be held by a thread that waits for this one. Any
// thread; no heap; a known file is found without a lock. If a library is unloaded and another takes its
// place, only a different extent tells them apart.
#pragma once

#include <cstdint>

#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

// Gives the tables of callers their place in the file; before the first use of the others. False: no page.
bool open_caller_tables() noexcept;

// Null for code that no file holds (generated at run time), without a page, and when the table is full.
module_entry const* module_of(void const* address) noexcept;

}  // namespace gpumem::stats
