// Writes the reports of a process: text to stderr or a file, JSON to a file. Called by the shim when the
// process ends, and by `gpumem run` for one that was killed. No CUDA call, nothing thrown, errno and the exit
// code untouched: a report that cannot be written is one line on stderr.
#pragma once

#include <string>

#include "core/report/document_options.hpp"
#include "core/stats/page/layout.hpp"

namespace gpumem::report {

struct write_options {
  std::string text = "stderr";  // stderr | stdout | - | none | a file pattern
  std::string json;             // the same; empty: none
  int stderr_fd = 2;            // a duplicate, as programs close their own
  int stdout_fd = 1;            // negative: it is none, or not for us
  document_options document;
};

// False when something could not be written.
bool write_reports(stats::snapshot const& from, write_options const& options) noexcept;
// Of this process's own page; nothing to do when that is null.
bool write_reports(stats::page const* page, write_options const& options) noexcept;

// The JSON alone, for who only hands it on: without the JSON library in the file that asks.
std::string json_text(stats::snapshot const& from, document_options const& options);

}  // namespace gpumem::report
