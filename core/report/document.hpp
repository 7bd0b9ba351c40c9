// Snapshot -> document: the whole report as one ordered JSON value, from which the text is rendered too, so
// that the two never disagree. Bytes and nanoseconds are integers; what is not known is null, never 0 or -1.
// Called at exit and by `gpumem`; pure; may use the heap; no CUDA call.
#pragma once

#include <nlohmann/json.hpp>

#include "core/report/document_options.hpp"

namespace gpumem::report {

inline constexpr int schema = 2;

document make_document(stats::snapshot const& from, document_options const& options);

}  // namespace gpumem::report
