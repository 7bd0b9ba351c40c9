// Reads fields out of a document, which may come from a file that someone edited: a missing or wrong-typed
// field reads as unknown, it never throws. Texts are made printable: names come from the program, and must
// not steer a terminal. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/text/printable.hpp"
#include "core/report/document_options.hpp"

namespace gpumem::report {

using base::printable;

document const& field(document const& from, std::string_view name);  // null when absent
// Nothing, or 0: absent, null, or no whole number that is at least 0.
std::optional<std::uint64_t> number(document const& from, std::string_view name);
std::uint64_t number_or_zero(document const& from, std::string_view name);
std::string words(document const& from, std::string_view name);  // "" when absent or no string

std::string file_name(std::string const& path);    // without folders
std::string library_name(document const& holder);  // the file of its "path", without folders

}  // namespace gpumem::report
