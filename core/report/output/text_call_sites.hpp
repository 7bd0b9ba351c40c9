// What the text report says of calling code: the exact figures of a node, leaks, misuses. Used by text.cpp
// and text_sections.cpp only.
#pragma once

#include <string>

#include "core/report/output/text.hpp"

namespace gpumem::report {

// Lines below a node of type statistics or another that keeps call sites; nothing for the rest.
void add_node_figures(std::string& text, document const& from, document const& node,
                      std::string const& indent, text_options const& options);
void add_leaks(std::string& text, document const& from, text_options const& options);
void add_misuses(std::string& text, document const& from, text_options const& options);

}  // namespace gpumem::report
