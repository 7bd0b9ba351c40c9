// The text of a configuration file, checked before any parser sees it: size, NUL bytes, UTF-8, depth of
// dotted keys. Called once a load. Keeps no descriptor. Inside a program only regular files are opened: a
// pipe without a writer would hang it, and each text of a pipe reaches one process alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/text/diagnostic.hpp"

namespace gpumem::config {

inline constexpr std::size_t largest_file = 256 * 1024;
inline constexpr int deepest_nesting = 32;  // of arrays, inline tables and dotted keys

// The reason and the remedy are added to `list` on failure; then the text is empty and the result false.
bool read_file(std::string const& path, std::string& text, std::vector<diagnostic>& list);
// The same for a person at a terminal: also "-", standard input, and pipes (<(...)), which are waited for.
bool read_file_or_pipe(std::string const& path, std::string& text, std::vector<diagnostic>& list);

// Without a byte order mark.
std::string_view strip_mark(std::string_view text) noexcept;

// False when the text cannot be TOML; the reason is then in `out`.
bool check_text(std::string_view text, diagnostics& out);

}  // namespace gpumem::config
