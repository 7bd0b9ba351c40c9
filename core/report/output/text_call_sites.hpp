// What the text report says of calling code: the exact figures of a node, leaks, misuses. Used by text.cpp
// and text_sections.cpp only.
#pragma once

#include <string>
#include <vector>

#include "core/report/output/text.hpp"

namespace gpumem::report {

// "train.cpp:31 load" where lines are known, else "libx.so load", else "libx.so+0x1234".
std::string frame_text(document const& frame);

// "train.py:132 forward": of a site's Python frames the innermost and those of the program's own files, not
// of installed packages; where Python runs, but not there, "thread pt_autograd_0".
std::vector<std::string> python_places(document const& site);
// The innermost one of the program's own files, else the innermost; empty: no Python frames.
std::string python_place(document const& site);

// Lines below a node of type statistics or another that keeps call sites; nothing for the rest.
void add_node_figures(std::string& text, document const& from, document const& node,
                      std::string const& indent, text_options const& options);
void add_leaks(std::string& text, document const& from, text_options const& options);
void add_misuses(std::string& text, document const& from, text_options const& options);

}  // namespace gpumem::report
