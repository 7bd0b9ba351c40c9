// `gpumem run`: starts a program under the library, and writes the reports of processes below it that could
// not.
#pragma once

#include <string>
#include <vector>

namespace gpumem::cli {

struct run_options {
  std::string config;
  std::string text, json;  // where the reports go, as GPUMEM_REPORT and GPUMEM_JSON; empty: as these say
  std::string record;      // the recording's file, as GPUMEM_RECORD
  bool phases = false;     // ranges of NVTX are phases
  bool uncached = false;
  bool quiet = false;
  std::vector<std::string> command;
};

// Of a program in which the library met a configuration that it cannot use (EX_CONFIG of sysexits.h).
inline constexpr int exit_bad_configuration = 78;
inline constexpr int exit_gpumem_failed = 125, exit_not_executable = 126, exit_not_found = 127;

// The program's own exit code, 128 + n for a signal, or one of the above.
int run(run_options const& options);

}  // namespace gpumem::cli
