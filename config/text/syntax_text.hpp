// What the TOML parser says about a syntax error, in plain words: what is wrong and what to write.
// Called at most once a load, for the first syntax error; pure.
#pragma once

#include <string>
#include <string_view>

#include "config/text/node.hpp"

namespace gpumem::config {

struct syntax_error {
  file_position at;
  std::string text;
  std::string note;
};

// `line` is the source line at `at`; `said` is the parser's text.
syntax_error explain_syntax(std::string_view line, file_position at, std::string_view said);

}  // namespace gpumem::config
