// The phases of a state page, for its snapshot: figures by name, and those that are open counted until now.
// Used by snapshot.cpp only; believes nothing of a file.
#pragma once

#include "core/stats/page_reader.hpp"
#include "core/stats/snapshot.hpp"

namespace gpumem::stats {

// After the devices. False: the page is truncated.
bool read_phases(page_reader& source, page_header const& head, snapshot& to);

}  // namespace gpumem::stats
