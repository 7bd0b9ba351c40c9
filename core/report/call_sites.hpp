// Call sites and misuses of a snapshot as parts of the document. Function names are read from the
// libraries' files; no program is run for it. Called by make_document.
#pragma once

#include <algorithm>
#include <span>

#include "core/report/categories.hpp"
#include "core/report/frame_names.hpp"

namespace gpumem::report {

// Of a refusal's sites those that are told; the rest counts for its categories.
inline std::span<stats::failure_note::site const> told_of(stats::failure_note const& note) {
  return std::span(note.sites).first(std::min<std::size_t>(note.sites.size(), 16));
}

// Of the call sites that the two below tell; where there are categories, of all sampled sites.
frame_names names_of_sites(stats::snapshot const& from);

// [{id, node, allocations, allocated_bytes, frees, freed_bytes, frames: [...], python: [{file, line,
// function}]}], and `thread` where Python runs, but not there; most bytes first: live ones
// of `tracking`, allocated ones of others.
// Frames begin with the program's: those of a static CUDA runtime are left out where its functions have
// names.
document call_sites_of(stats::snapshot const& from, frame_names const& names);
// {every_bytes, devices: [{device, sites, now_bytes, at_highest_bytes}], sites: [{id, device, samples,
// now_bytes, at_highest_bytes, frames, python}]}, and `category` where there are some: the sites that hold
// most of each device, and those of failures.
document samples_of(stats::snapshot const& from, frame_names const& names, category_table const& table,
                    site_categories const& categories);
document misuses_of(stats::snapshot const& from);

}  // namespace gpumem::report
