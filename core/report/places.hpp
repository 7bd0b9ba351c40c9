// The calling code of a site of the document in words: its lines of Python code, and its frames. For the text
// report and for the remedy of a refusal; pure.
#pragma once

#include <string>
#include <vector>

#include "core/report/document_options.hpp"

namespace gpumem::report {

// "train.cpp:31 load" where lines are known, else "libx.so load", else "libx.so+0x1234".
std::string frame_text(document const& frame);
// The innermost frame, and then of a library's frames in a row only the outermost, which its users call; of
// the program's own each. At most three.
std::vector<std::string> places_of(document const& site, std::string const& program);

// "train.py:132 forward": of a site's Python frames the innermost and those of the program's own files, not
// of installed packages; where Python runs, but not there, "thread pt_autograd_0".
std::vector<std::string> python_places(document const& site);

// In a few words: the innermost line of Python code that is the program's own, or else the innermost, or of
// code without Python the innermost frame.
std::string short_place(document const& site, std::string const& program);

}  // namespace gpumem::report
