// See categories.hpp. Names of C++ functions are matched as people write them, with their parameters or
// without.
#include "core/report/categories.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/text/glob.hpp"
#include "core/report/fields.hpp"
#include "core/report/names/demangle.hpp"

namespace gpumem::report {
namespace {

// A file by its path if the pattern has a slash, else by its name.
bool matches_file(std::string const& pattern, std::string const& path) {
  return base::matches(pattern, pattern.find('/') != pattern.npos ? path : file_name(path));
}

// "ns::f<int>(int) const" -> "ns::f<int>"; the same where there are no parameters.
std::string without_parameters(std::string const& function) {
  std::size_t const end = function.rfind(')');
  if (end == function.npos) return function;
  int open = 0;
  for (std::size_t at = end + 1; at-- > 0;) {
    open += function[at] == ')' ? 1 : function[at] == '(' ? -1 : 0;
    if (open == 0) return at == 0 ? function : function.substr(0, at);
  }
  return function;
}

std::size_t category_of(site_categories const& sites, unsigned number, category_table const& table) {
  auto const found = sites.find(number);
  return found == sites.end() ? table.size() - 1 : found->second;
}

struct held {
  std::uint64_t now = 0, at_highest = 0;
  document row() const { return {{"now_bytes", now}, {"at_highest_bytes", at_highest}}; }
};

}  // namespace

std::string category_table::name(std::size_t number) const {
  return number < categories_.size() ? categories_[number].name : "other";
}

std::size_t category_table::first_match(std::vector<std::string> const& files,
                                        std::vector<std::string> const& names) const {
  auto const is_taken = [&](std::string const& pattern) {
    return std::ranges::any_of(files, [&](auto const& file) { return matches_file(pattern, file); }) ||
           std::ranges::any_of(names, [&](auto const& name) { return base::matches(pattern, name); });
  };
  auto const found = std::ranges::find_if(
      categories_, [&](stats::category const& one) { return std::ranges::any_of(one.patterns, is_taken); });
  return static_cast<std::size_t>(found - categories_.begin());
}

std::size_t category_table::of_library(std::string const& path) const {
  return first_match({path}, {});
}

std::size_t category_table::of_site(document const& frames,
                                    std::vector<stats::python_place> const& python) const {
  std::vector<std::string> files, names;
  for (auto const& frame : frames) {
    if (std::string library = frame.value("library", ""); !library.empty())
      files.push_back(std::move(library));
    std::string const symbol = frame.value("symbol", "");
    if (symbol.empty()) continue;
    names.push_back(demangled(symbol));
    names.push_back(without_parameters(names.back()));
  }
  for (auto const& place : python) {
    files.push_back(place.file);
    names.push_back(place.function);
  }
  return first_match(files, names);
}

site_categories categories_of_sites(stats::snapshot const& from, frame_names const& names,
                                    category_table const& table) {
  site_categories found;
  if (table.empty()) return found;
  for (auto const& site : from.sampled_sites)
    found[site.number] = table.of_site(names.frames_of(site.frames), site.python);
  return found;
}

document categories_of(stats::snapshot const& from, category_table const& table,
                       site_categories const& sites) {
  document names = document::array(), devices = document::array();
  for (std::size_t i = 0; i + 1 < table.size(); ++i)
    names.push_back({{"name", table.name(i)}, {"patterns", table.patterns(i)}});
  for (auto const& device : from.devices) {
    std::vector<held> sampled(table.size()), called(table.size());
    for (auto const& site : from.sampled_sites) {
      if (site.device != device.ordinal) continue;
      held& row = sampled[category_of(sites, site.number, table)];
      row.now += site.now, row.at_highest += site.at_highest;
    }
    for (auto const& library : device.libraries) {
      held& row = called[table.of_library(library.path)];
      row.now += library.routed + library.observed;
      row.at_highest += library.peak_routed + library.peak_observed;
    }
    document rows = document::array();
    for (std::size_t i = 0; i < table.size(); ++i) {
      rows.push_back(
          {{"name", table.name(i)}, {"samples", sampled[i].row()}, {"libraries", called[i].row()}});
    }
    devices.push_back({{"device", device.ordinal}, {"rows", std::move(rows)}});
  }
  return {{"names", std::move(names)}, {"devices", std::move(devices)}};
}

document categories_of(stats::failure_note const& note, category_table const& table,
                       site_categories const& sites) {
  std::vector<std::uint64_t> held_by(table.size());
  for (auto const& site : note.sites) held_by[category_of(sites, site.number, table)] += site.bytes;
  document rows = document::array();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (held_by[i] != 0) rows.push_back({{"name", table.name(i)}, {"held_bytes", held_by[i]}});
  }
  return rows;
}

}  // namespace gpumem::report
