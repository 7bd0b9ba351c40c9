// Reads chains; see chains_reader.hpp. One thread, once a load.
#include "config/reader/sections/chains_reader.hpp"

#include <span>

#include "config/reader/values/bounds.hpp"
#include "config/reader/values/value_reader.hpp"

namespace gpumem::config {
namespace {

constexpr char const* example = "write [ [\"pool\", \"cuda\"], [\"managed\"] ]";

}  // namespace

std::vector<std::string> read_names(node const& value, std::string const& where, draft& all,
                                    diagnostics& out) {
  std::vector<std::string> names;
  if (bounded(value.children.size(), most_names, "resources in one chain", value.at, out) <
      value.children.size())
    return names;
  for (node const& child : value.children) {
    if (child.type != node::kind::string) {
      out.error("E203", child.at,
                "a chain holds names of resources, not " + std::string(kind_name(child.type)),
                "write names in quotes");
      continue;
    }
    all.places[where + "." + std::to_string(names.size())] = child.at;
    names.push_back(child.text);
  }
  return names;
}

std::optional<option> read_chains(node const& value, std::string const& where, std::string const& shown,
                                  draft& all, diagnostics& out) {
  if (value.type != node::kind::array) {
    out.error("E203", value.at,
              shown + " must be an array of chains, not " + std::string(kind_name(value.type)), example);
    return std::nullopt;
  }
  std::vector<std::vector<std::string>> chains;
  std::size_t const count = bounded(value.children.size(), most_branches, "chains", value.at, out);
  bool good = count == value.children.size();
  for (node const& child : std::span(value.children).first(count)) {
    std::string const index = where + "." + std::to_string(chains.size());
    if (child.type != node::kind::array) {
      out.error("E203", child.at, shown + " holds chains, not " + std::string(kind_name(child.type)),
                example);
      good = false;
      continue;
    }
    if (child.children.empty()) {
      out.error("E306", child.at, "an empty chain in " + shown,
                "remove it: what no chain serves is out of memory");
      good = false;
      continue;
    }
    all.places[index] = child.at;
    chains.push_back(read_names(child, index, all, out));
    good = good && chains.back().size() == child.children.size();
  }
  if (good && chains.size() < 2) {
    out.error("E216", value.at, shown + " has " + (chains.empty() ? "no chain" : "one chain"),
              "a fallback needs at least two, the first one first; " + std::string(example));
    return std::nullopt;
  }
  return good ? std::optional<option>(std::move(chains)) : std::nullopt;
}

}  // namespace gpumem::config
