// Phases of a snapshot as a part of the document. Called by make_document; pure.
#pragma once

#include "core/report/document_options.hpp"

namespace gpumem::report {

// {names: [{name, entered, inside_ns, open, devices: [{ordinal, highest_bytes, added_bytes, requests,
// refusals, growths}]}], unmeasured}, in the order in which the program named them. `end`: how the process
// ended, of which the duration says until when those count that are open; where that is not known, until a
// phase was last heard of.
document phases_of(stats::snapshot const& from, document const& end);

}  // namespace gpumem::report
