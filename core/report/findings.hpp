// What stands out in a report: the "!!" lines at its top, each with the section that tells more.
// Called by make_document; pure.
#pragma once

#include "core/report/document_options.hpp"

namespace gpumem::report {

// [{level: "!!" | "!", text, see}], gravest first.
document find_what_stands_out(stats::snapshot const& from, std::string const& end);

}  // namespace gpumem::report
