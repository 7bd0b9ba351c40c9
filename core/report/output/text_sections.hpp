// The sections of the text report, in their order; each adds its lines, or nothing when it has nothing to
// say. Used by text.cpp only.
#pragma once

#include <string>

#include "core/report/output/text.hpp"

namespace gpumem::report {

// One section each, after what `text` holds; nothing where the document has nothing to say for it.
void add_devices(std::string& text, document const& from, text_options const& options);
void add_libraries(std::string& text, document const& from, text_options const& options);
void add_categories(std::string& text, document const& from, text_options const& options);
void add_samples(std::string& text, document const& from, text_options const& options);
void add_phases(std::string& text, document const& from, text_options const& options);
// "train.cpp:31 load about 12.00 GiB, ..."; empty: nothing was sampled.
std::string failure_sites_text(document const& from, document const& failure);
// "optimizer about 12.00 GiB (61 %), ..."; empty: no categories.
std::string failure_categories_text(document const& failure);
// "train.py:132 forward, from libx.so load, ...": where the refused request came from.
std::string failure_place_text(document const& from, document const& failure);
void add_timeline(std::string& text, document const& from, text_options const& options);
void add_calls(std::string& text, document const& from, text_options const& options);
void add_chains(std::string& text, document const& from, text_options const& options);
void add_sizes(std::string& text, document const& from, text_options const& options);
void add_failures(std::string& text, document const& from, text_options const& options);

}  // namespace gpumem::report
