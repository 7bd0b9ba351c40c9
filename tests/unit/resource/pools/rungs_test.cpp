// One order of rungs: core/README.md's table and the counters of the report follow
// core/resource/pools/rungs.def.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace gpumem::resource {
namespace {

// Each counter once, where it stands first; the first two and the last are no steps of the slow path.
std::vector<std::string> counters() {
  std::vector<std::string> names{"rung_cached", "rung_same_stream"};
#define GPUMEM_FIRST_RUNG GPUMEM_RUNG
#define GPUMEM_LAST_RUNG GPUMEM_RUNG
#define GPUMEM_RUNG(step, counter) \
  if (names.back() != #counter) names.emplace_back(#counter);
#include "core/resource/pools/rungs.def"
#undef GPUMEM_RUNG
#undef GPUMEM_FIRST_RUNG
#undef GPUMEM_LAST_RUNG
  names.emplace_back("rung_fallback");
  std::vector<std::string> once;
  for (std::string const& name : names) {
    if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(name);
  }
  return once;
}

std::vector<std::string> words_of(std::string const& file, std::string const& line_begins, bool all_of_line) {
  std::ifstream text(GPUMEM_SOURCE_FOLDER "/" + file);
  std::vector<std::string> words;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind(line_begins, 0) != 0) continue;
    std::string const part = all_of_line ? line : line.substr(0, line.find('|', 2));
    for (std::size_t at = 0; (at = part.find("rung_", at)) != std::string::npos;) {
      std::size_t const end = part.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
      words.push_back(part.substr(at, end - at));
      at = end;
    }
  }
  return words;
}

// Growth stands twice among the steps, for its first turn is only taken by requests that would split a piece:
// the table says it where all come to it.
std::vector<std::string> by_where_all_come(std::vector<std::string> names) {
  auto const grown = std::find(names.begin(), names.end(), "rung_grown");
  names.erase(grown);
  names.insert(std::find(names.begin(), names.end(), "rung_drained"), "rung_grown");
  return names;
}

TEST(rungs, the_table_of_the_readme_has_them_in_order) {
  EXPECT_EQ(words_of("core/README.md", "| `rung_", false), by_where_all_come(counters()));
}

TEST(rungs, the_counters_have_the_same_order) {
  EXPECT_EQ(words_of("core/stats/page/fields.def", "GPUMEM_DEVICE_FIELD(rung_", true),
            by_where_all_come(counters()));
}

}  // namespace
}  // namespace gpumem::resource
