// See categories_reader.hpp. What is refused here is what the report could not print, or the state page not
// hold: a process that was killed has its categories in it.
#include "config/reader/sections/categories_reader.hpp"

#include <algorithm>
#include <span>

#include "config/reader/values/bounds.hpp"
#include "config/reader/values/value_reader.hpp"
#include "core/base/text/glob.hpp"
#include "core/stats/page/layout.hpp"

namespace gpumem::config {
namespace {

constexpr char const* category_example = "write optimizer = [\"*/optim/*.py\"]";
constexpr std::string_view rest_of_all = "other";  // what the report calls code that no pattern matches

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ' ';
}

bool check_name(node const& category, diagnostics& out) {
  std::string const& name = category.key;
  if (name == rest_of_all) {
    out.error("E224", category.key_at, "a category cannot be named " + quoted(name),
              "the report calls so what no pattern matches: choose another name");
    return false;
  }
  bool const good = !name.empty() && name.size() <= most_category_name && name.front() != ' ' &&
                    name.back() != ' ' && std::ranges::all_of(name, is_letter);
  if (!good) {
    out.error("E224", category.key_at, quoted(name) + " is no name of a category",
              "write 1 to " + std::to_string(most_category_name) + " letters, digits, _, -, . and blanks");
  }
  return good;
}

void read_pattern(node const& value, std::string const& where, stats::category& to, diagnostics& out) {
  if (value.type != node::kind::string) {
    out.error("E203", value.at,
              where + ": a pattern must be a string, not " + std::string(kind_name(value.type)),
              category_example);
    return;
  }
  std::string problem(base::glob_problem(value.text));
  if (value.text.find('\0') != value.text.npos) problem = "a pattern holds no NUL";
  if (!problem.empty()) {
    out.error("E213", value.at, where + ": " + problem);
    return;
  }
  to.patterns.push_back(value.text);
}

void read_category(node const& child, draft& to, diagnostics& out) {
  std::string const where = "report.categories." + child.key;
  if (!check_name(child, out)) return;
  if (child.type != node::kind::array) {
    out.error("E203", child.at,
              where + " must be an array of patterns, not " + std::string(kind_name(child.type)),
              child.type == node::kind::string ? "write [ ] around it" : category_example);
    return;
  }
  if (child.children.empty()) {
    out.error("E205", child.at, where + " has no pattern", category_example);
    return;
  }
  stats::category category{child.key, {}};
  std::size_t const count =
      bounded(child.children.size(), most_category_patterns, "patterns", child.children.front().at, out);
  for (node const& value : std::span(child.children).first(count)) read_pattern(value, where, category, out);
  to.result.origins[where] = {out.position(child.at)};
  to.places[where] = child.at;
  to.result.categories.push_back(std::move(category));
}

// What follows a category that matches everything gets nothing.
void check_order(draft const& to, diagnostics& out) {
  auto const& all = to.result.categories;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    bool const takes_all = std::ranges::find(all[i].patterns, "*") != all[i].patterns.end();
    if (!takes_all) continue;
    out.warning("W504", to.where("report.categories." + all[i].name),
                "category " + quoted(all[i].name) + " matches everything: those after it get nothing",
                "the first that matches wins: write it last, or leave it out, as the rest is \"other\"");
    return;
  }
}

}  // namespace

void read_categories(node const& table, draft& to, diagnostics& out) {
  if (table.type != node::kind::table) {
    out.error("E203", table.at,
              "report.categories must be a table, not " + std::string(kind_name(table.type)),
              "write [report.categories] and below it optimizer = [\"*/optim/*.py\"]");
    return;
  }
  std::size_t const count =
      table.children.empty()
          ? 0
          : bounded(table.children.size(), most_categories, "categories", table.children.front().key_at, out);
  for (node const& child : std::span(table.children).first(count)) read_category(child, to, out);
  check_order(to, out);
  std::size_t const bytes = stats::packed(to.result.categories).size();
  if (bytes > stats::category_bytes) {
    out.error("E219", table.key_at,
              "names and patterns of the categories have " + std::to_string(bytes) + " letters together",
              "at most " + std::to_string(stats::category_bytes) +
                  ", with one for the end of each; a pattern may stand for several: \"lib*blas*\"");
  }
}

}  // namespace gpumem::config
