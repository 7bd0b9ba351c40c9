// `gpumem export`: writes a recording in a form that other programs read. rmm-csv: the six columns of RMM's
// logging adaptor, as the resource `logging` writes them first, which RMM's replay benchmark reads.
#pragma once

#include <string>

namespace gpumem::cli {

struct export_options {
  std::string recording;
  std::string format;
  std::string output;  // empty: standard output
};

// 0 good, 1 a part of the recording is damaged, 2 it cannot be read, 3 the output cannot be written.
int write_export(export_options const& options);

}  // namespace gpumem::cli
