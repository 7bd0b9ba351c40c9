// A JSON report that is read back from a file, which anyone may have written: bounded in size and depth, and
// of a schema that is known. Used by the verbs; one thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/report/document_options.hpp"

namespace gpumem::cli {

struct json_report {
  report::document content;
  std::string error;  // with the file's name; empty: good
};

// Of a schema from `oldest` on.
json_report read_json_report(std::string const& path, int oldest);

}  // namespace gpumem::cli
