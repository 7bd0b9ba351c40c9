// See glob.hpp. Goes back only to the last *: time is the product of the lengths at worst, never more.
#include "core/base/text/glob.hpp"

#include <cstddef>

namespace gpumem::base {
namespace {

// Whether the set that begins at `pattern[at]` ("[") holds `c`; moves `at` behind it. A set without an end is
// the character "[" itself.
bool takes(std::string_view pattern, std::size_t& at, char c) noexcept {
  std::size_t i = at + 1;
  bool const inverted = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (inverted) ++i;
  bool found = false;
  for (std::size_t const first = i; i < pattern.size() && (pattern[i] != ']' || i == first); ++i) {
    bool const range = i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']';
    found = found || (range ? pattern[i] <= c && c <= pattern[i + 2] : pattern[i] == c);
    if (range) i += 2;
  }
  if (i >= pattern.size()) {
    ++at;
    return c == '[';
  }
  at = i + 1;
  return found != inverted;
}

bool one(std::string_view pattern, std::size_t& at, char c) noexcept {
  if (pattern[at] == '[') return takes(pattern, at, c);
  char const wanted = pattern[at++];
  return wanted == '?' || wanted == c;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) noexcept {
  constexpr std::size_t never = ~std::size_t{0};
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = never;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      resume = t;
      continue;
    }
    if (p < pattern.size() && one(pattern, p, text[t])) {
      ++t;
      continue;
    }
    if (star == never) return false;
    p = star;
    t = ++resume;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string_view glob_problem(std::string_view pattern) noexcept {
  if (pattern.empty()) return "the pattern is empty";
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '[') continue;
    std::size_t const end = pattern.find(']', i + 2);
    if (end == pattern.npos) return "a [ has no ]";
    i = end;
  }
  return {};
}

}  // namespace gpumem::base
