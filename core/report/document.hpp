// Snapshot -> document: the whole report as one ordered JSON value, from which the text is rendered too, so
// that the two never disagree. Bytes and nanoseconds are integers; what is not known is null, never 0 or -1.
// Called at exit and by `gpumem`; pure; may use the heap; no CUDA call.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/stats/snapshot.hpp"

namespace gpumem::report {

using document = nlohmann::ordered_json;

struct document_options {
  std::string written_by = "exit";  // exit | gpumem run | gpumem report
  // How the process ended, from who waited for it; used when it did not write its own end.
  std::optional<stats::end_record> end;
  bool alive = false;  // a live process, looked at from outside
  // Adds files and lines to the frames of call sites; null in the process itself, where no program is run.
  void (*add_lines)(document& content) = nullptr;
};

inline constexpr int schema = 1;

document make_document(stats::snapshot const& from, document_options const& options);

}  // namespace gpumem::report
