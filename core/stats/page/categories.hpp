// Categories: names of the user's for code that takes memory, each with patterns ([report.categories]). They
// lie in the state page as text, so that whoever reads it, also after a kill, needs no configuration. Written
// once, with the configuration; read by snapshot. Uses the heap; no CUDA call.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpumem::stats {

struct category {
  std::string name;
  std::vector<std::string> patterns;
};

// Each name and each pattern with a NUL behind it, and one more behind the last of a category.
inline std::string packed(std::span<category const> categories) {
  std::string text;
  for (category const& one : categories) {
    text += one.name + '\0';
    for (std::string const& pattern : one.patterns) text += pattern + '\0';
    text += '\0';
  }
  return text;
}
// What was cut off or damaged is left out.
inline std::vector<category> unpacked(std::string_view text) {
  std::vector<category> found;
  category next;
  for (std::size_t end = text.find('\0'); end != text.npos; end = text.find('\0')) {
    std::string_view const word = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (word.empty()) {
      if (!next.patterns.empty()) found.push_back(std::move(next));
      next = {};
    } else if (next.name.empty()) {
      next.name = word;
    } else {
      next.patterns.emplace_back(word);
    }
  }
  return found;
}

}  // namespace gpumem::stats
