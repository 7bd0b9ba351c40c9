// `gpumem report`: shows a report from a state page of a live or ended process, or from a JSON report; lists
// the pages; explains the terms.
#pragma once

#include <string>
#include <vector>

namespace gpumem::cli {

struct report_options {
  std::vector<std::string> files;
  long pid = 0;
  bool last = false;
  bool list = false;
  bool json = false;
  bool explain = false;
  bool clean = false;
  std::string term;
};

// 0 good, 2 unreadable or nothing there, 3 could not be written.
int report(report_options const& options);

}  // namespace gpumem::cli
