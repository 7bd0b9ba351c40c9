// Finds libgpumem.so from where this program lies, and makes the environment of a program that runs under it.
// Used by `gpumem run`; one thread; changes nothing of this process.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpumem::cli {

struct library {
  std::string path;
  std::string error;  // where it was looked for; empty: found
};
library find_library();

// The examples that came with this program, with a slash at the end; "examples/" where they are not found.
std::string examples_folder();

struct run_settings {
  std::string library;
  std::string config;  // absolute path; empty: what GPUMEM_CONFIG says
  std::string run_id;
  std::string state_directory;                                   // empty: left as it is
  std::vector<std::pair<std::string, std::string>> variables{};  // name and value, over what is there
};

// `from` with LD_PRELOAD beginning with the library (an existing list is kept after it) and the GPUMEM_
// variables.
std::vector<std::string> environment_of(char const* const* from, run_settings const& settings);

}  // namespace gpumem::cli
