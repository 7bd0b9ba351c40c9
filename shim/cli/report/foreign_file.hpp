// Reads a whole file that others wrote: it must be regular, and no longer than its writer would ever make
// it. Used by the verbs.
#pragma once

#include <cstddef>
#include <string>

namespace gpumem::cli {

struct foreign_text {
  std::string text;
  std::string error;  // with the value, the limit and the remedy; empty: good
};

foreign_text read_foreign(std::string const& path, std::size_t limit);

}  // namespace gpumem::cli
