// Starts a program and waits for its end. Signals that this process gets are passed on, so that who signals
// `gpumem run` reaches the program. One thread; once a process.
#pragma once

#include <string>
#include <vector>

namespace gpumem::cli {

struct child_result {
  int pid = -1;
  int exec_error = 0;  // errno of a program that could not be started
  int status = 0;      // as waitpid gives it
};

child_result run_and_wait(std::vector<std::string> const& command,
                          std::vector<std::string> const& environment);

}  // namespace gpumem::cli
