// The man pages and the completions of `gpumem`, made of its command line, so that no option is said twice or
// forgotten. Called by the small program that the build runs (documents_main.cpp) on one thread; never part
// of `gpumem` itself.
#pragma once

#include <string>

#include "shim/cli/command_line/command_line.hpp"

namespace gpumem::cli {

// gpumem(1), or with a verb of `line.app` its own page, gpumem-VERB(1), in roff.
std::string man_page(command_line const& line, CLI::App const* verb);

std::string bash_completion(command_line const& line);
std::string zsh_completion(command_line const& line);
std::string fish_completion(command_line const& line);

}  // namespace gpumem::cli
