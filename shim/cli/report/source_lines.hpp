// Files and lines for the call sites of a report, by llvm-symbolizer or addr2line; without either a report
// keeps the names it has. Used by `gpumem report` and `gpumem run`, never by the library in the program's
// process.
#pragma once

#include "core/report/document_options.hpp"

namespace gpumem::cli {

void add_source_lines(report::document& content);

}  // namespace gpumem::cli
