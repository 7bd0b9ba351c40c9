// A document by name, and what is asked of one that is made: for headers that only pass it on, as the whole
// of the JSON library costs seconds in each file that includes it. document.hpp has the rest.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/stats/snapshot.hpp"

namespace gpumem::report {

using document = nlohmann::ordered_json;

struct document_options {
  std::string written_by = "exit";  // exit | gpumem run | gpumem report | gpumem_get_report
  // How the process ended, from who waited for it; used when it did not write its own end.
  std::optional<stats::end_record> end;
  bool alive = false;  // a live process, looked at from outside or by itself
  // Adds files and lines to the frames of call sites; null in the process itself, where no program is run.
  void (*add_lines)(document& content) = nullptr;
};

}  // namespace gpumem::report
