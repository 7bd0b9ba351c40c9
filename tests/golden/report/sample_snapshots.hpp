// Snapshots as processes would leave them, made by hand: the stories that the golden reports tell.
#pragma once

#include <string>
#include <vector>

#include "core/report/document.hpp"
#include "core/stats/snapshot.hpp"

namespace gpumem::report {

struct sample {
  std::string name;  // of the golden files
  stats::snapshot content;
  document_options options;
  std::string json_path;  // as the text names it
};

std::vector<sample> sample_snapshots();

}  // namespace gpumem::report
