// Document -> text report, at most 96 columns: what stands out first, the command to type next last. Sections
// with nothing to say are left out. Called at exit and by `gpumem`; pure.
#pragma once

#include <string>

#include "core/report/document.hpp"

namespace gpumem::report {

struct text_options {
  bool utf8 = false;  // else ASCII only
  bool colour = false;
  std::string json_path;  // of the JSON written beside it, empty: none
};

// What LC_ALL, LC_CTYPE and LANG say, without touching the program's locale.
bool locale_is_utf8() noexcept;

std::string render_text(document const& from, text_options const& options);

}  // namespace gpumem::report
