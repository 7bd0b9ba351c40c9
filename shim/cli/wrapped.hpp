// Words in lines that fit the terminal, for the verbs. One thread; pure but for the question how wide the
// terminal is, which is asked once.
#pragma once

#include <unistd.h>

#include <sstream>
#include <string>

#include "core/report/output/terminal.hpp"
#include "core/report/output/text_format.hpp"

namespace gpumem::cli {

// All but the first line begin with `indent`; the first is thought to stand behind as much.
inline std::string wrapped(std::string const& text, std::string const& indent) {
  static std::size_t const width = report::columns_of_terminal(STDOUT_FILENO, report::page_width);
  std::string result;
  std::size_t column = indent.size();
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    bool const first = column == indent.size();
    if (!first && column + 1 + word.size() > width) {
      result += "\n" + indent + word;
      column = indent.size() + word.size();
      continue;
    }
    result += (first ? "" : " ") + word;
    column += word.size() + (first ? 0 : 1);
  }
  return result;
}

}  // namespace gpumem::cli
