// Document -> text report, at most `width` columns: what stands out first, the command to type next last.
// Sections with nothing to say are left out. Called at exit and by `gpumem`; pure.
#pragma once

#include <string>

#include "core/report/document_options.hpp"
#include "core/report/output/text_format.hpp"

namespace gpumem::report {

struct text_options {
  bool utf8 = false;  // else ASCII only
  bool colour = false;
  std::string json_path;  // of the JSON written beside it, empty: none
  // of the page: tables give up columns below page_width, and have no more above it
  std::size_t width = page_width;
};

// What LC_ALL, LC_CTYPE and LANG say, without touching the program's locale.
bool locale_is_utf8() noexcept;

std::string render_text(document const& from, text_options const& options);

}  // namespace gpumem::report
