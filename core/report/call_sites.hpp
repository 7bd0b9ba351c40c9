// Call sites and misuses of a snapshot as parts of the document. Function names are read from the
// libraries' files; no program is run for it. Called by make_document.
#pragma once

#include "core/report/document_options.hpp"

namespace gpumem::report {

// [{id, node, allocations, allocated_bytes, frees, freed_bytes, frames: [...], python: [{file, line,
// function}]}], and `thread` where Python runs, but not there; most bytes first: live ones
// of `tracking`, allocated ones of others.
// Frames begin with the program's: those of a static CUDA runtime are left out where its functions have
// names.
document call_sites_of(stats::snapshot const& from);
// {every_bytes, devices: [{ordinal, sites, now_bytes, at_highest_bytes}], sites: [{id, device, samples,
// now_bytes, at_highest_bytes, frames, python}]}: the sites that hold most of each device, and those of
// failures.
document samples_of(stats::snapshot const& from);
document misuses_of(stats::snapshot const& from);

}  // namespace gpumem::report
