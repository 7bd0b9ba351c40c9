// See suggest.hpp. Edit distance with transpositions, case ignored, and the start of a longer name. Called
// only when there is an error to explain; words are short, and long ones get no guess.
#include "config/text/suggest.hpp"

#include <algorithm>
#include <array>

namespace gpumem::config {
namespace {

constexpr std::size_t longest = 48;

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool same(char a, char b) noexcept {
  return lower(a) == lower(b);
}

std::size_t distance(std::string_view a, std::string_view b) noexcept {
  using row = std::array<std::size_t, longest + 1>;
  row before{}, last{}, now{};
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0U : 1U)});
      bool const swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    last = now;
  }
  return last[b.size()];
}

bool is_start(std::string_view word, std::string_view name) noexcept {
  return word.size() >= 4 && word.size() < name.size() &&
         std::equal(word.begin(), word.end(), name.begin(), same);
}

}  // namespace

std::string_view nearest(std::string_view word, std::vector<std::string_view> const& names) {
  std::string_view best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  if (word.empty() || word.size() > longest) return best;
  for (auto name : names) {
    if (name.size() > longest) continue;
    std::size_t const cost = is_start(word, name) ? 1 : distance(word, name);
    if (cost < least) {
      least = cost;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::vector<std::string_view> const& names) {
  auto const name = nearest(word, names);
  return name.empty() ? std::string() : "did you mean \"" + std::string(name) + "\"?";
}

std::string joined(std::vector<std::string_view> const& names) {
  std::string result;
  for (auto name : names) {
    if (!result.empty()) result += ", ";
    result += name;
  }
  return result;
}

}  // namespace gpumem::config
