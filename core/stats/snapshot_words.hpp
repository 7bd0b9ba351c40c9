// The command and the variables of a state page, for its snapshot, as words. Used by snapshot.cpp only;
// believes nothing of a file.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/stats/page/state_page.hpp"
#include "core/stats/snapshot.hpp"

namespace gpumem::stats {

template <std::size_t size>
std::vector<std::string> items_of(char const (&text)[size], std::uint32_t bytes) {
  std::vector<std::string> items;
  std::string_view rest(text, std::min<std::size_t>(bytes, size));
  while (!rest.empty()) {
    std::size_t const end = std::min(rest.find('\0'), rest.size());
    items.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return items;
}

// What is there of a word that was cut is no word; but for the program's own name.
inline void copy_words(page_header const& head, snapshot& to) {
  to.environment = items_of(head.environment, head.environment_bytes);
  to.argv = items_of(head.argv, head.argv_bytes);
  if (head.argv_bytes <= sizeof head.argv) return;
  std::uint64_t kept = 0;
  if (to.argv.size() == 1) {
    kept = to.argv[0].size();
  } else {
    to.argv.pop_back();
    for (auto const& word : to.argv) kept += word.size() + 1;
  }
  to.argv_dropped = head.argv_bytes - 1 - kept;
}

}  // namespace gpumem::stats
