// Whether gpumem can be loaded into a program, and how its CUDA calls would be intercepted: for `gpumem
// check -- PROGRAM`. The program is looked at, never run. One thread.
#pragma once

#include <string>
#include <vector>

namespace gpumem::cli {

enum class verdict { yes, no, unknown };

struct interception {
  verdict result = verdict::unknown;
  std::string path;                // of the program that runs in the end: a script's interpreter
  std::vector<std::string> facts;  // what was found, one line each
  std::vector<std::string> problems;
};

// What the loader goes by besides the program: variables, user, /etc/ld.so.preload.
struct surroundings {
  std::string search_path;   // PATH
  std::string library_path;  // LD_LIBRARY_PATH
  std::string preloads;      // LD_PRELOAD
  unsigned user = 0, group = 0;
  bool system_preloads = false;  // /etc/ld.so.preload exists
};
surroundings of_this_process();

interception inspect(std::string const& program, surroundings const& around);

}  // namespace gpumem::cli
