// Reads out of a JSON report what recommending needs. The only file here that knows the names of fields, of
// this schema and the one before; a field that is absent or of another type reads as unknown. Pure.
#pragma once

#include "core/report/document_options.hpp"
#include "shim/cli/recommend/use.hpp"

namespace gpumem::cli {

program_use use_of_report(report::document const& from);

}  // namespace gpumem::cli
