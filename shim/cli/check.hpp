// `gpumem check`: all errors and warnings of a configuration with their positions, and what it resolves to.
#pragma once

#include <string>

namespace gpumem::cli {

struct check_options {
  std::string file;  // empty: what the environment says
  bool strict = false;
};

// 0 good, 1 warnings under --strict, 2 errors.
int check(check_options const& options);

}  // namespace gpumem::cli
