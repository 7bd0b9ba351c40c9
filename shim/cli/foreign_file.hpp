// A file from elsewhere, as a text: regular, and no longer than what its writer would ever write. Used by the
// verbs for what they read whole.
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
