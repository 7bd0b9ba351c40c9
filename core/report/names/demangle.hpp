// A function's name as people write it: of the linker's name of a C++ function what it stands for, with its
// parameters, else the name itself. Uses the heap; for reports. Called by whoever prints functions, or holds
// patterns against them; pure.
#pragma once

#include <string>

namespace gpumem::report {

std::string demangled(std::string const& symbol);

}  // namespace gpumem::report
