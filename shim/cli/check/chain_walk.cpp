// See chain_walk.hpp.
#include "shim/cli/check/chain_walk.hpp"

#include <algorithm>

#include "config/reader/sections/rule_checks.hpp"

namespace gpumem::cli {
namespace {

constexpr int deepest = 16;  // cycles are errors, told before anything walks

using visitor = std::function<void(config::resource_plan const&, position const&)>;

void walk_one(config::plan const& plan, std::string const& name, int device, position const& at, int depth,
              visitor const& visit);

void walk_chain(config::plan const& plan, std::vector<std::string> const& names, int device,
                position const* outer, int depth, visitor const& visit) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    position at{.names = names, .index = i};
    if (outer != nullptr) at.of_fallback = true, at.branch = outer->branch;
    walk_one(plan, names[i], device, at, depth, visit);
  }
}

void walk_one(config::plan const& plan, std::string const& name, int device, position const& at, int depth,
              visitor const& visit) {
  config::resource_plan const* const resource = plan.find(name, device);
  if (resource == nullptr || depth > deepest) return;
  visit(*resource, at);
  if (auto const* const bins = bins_of(*resource)) {
    std::vector<std::string> seen;  // one resource may serve several bins
    for (auto const& bin : *bins) {
      if (bin.to.empty() || std::find(seen.begin(), seen.end(), bin.to) != seen.end()) continue;
      seen.push_back(bin.to);
      position inner = {.names = at.names, .index = at.index, .of_bin = true, .of_fallback = at.of_fallback};
      walk_one(plan, bin.to, device, inner, depth + 1, visit);
    }
  }
  if (auto const* const branches = branches_of(*resource)) {
    for (std::size_t i = 0; i < branches->size(); ++i) {
      position const outer{.names = at.names, .index = at.index, .branch = i};
      walk_chain(plan, (*branches)[i], device, &outer, depth + 1, visit);
    }
  }
}

}  // namespace

std::vector<built_chain> chains_of(config::plan const& plan, device const& on) {
  std::vector<built_chain> result;
  for (char const* kind : {"device", "managed", "host"}) {
    auto const& route = plan.route_of(kind);
    if (!route.passthrough) result.push_back({kind, kind, &route.chain});
  }
  for (auto const* rule : config::chains_of_rules(plan)) {
    if (rule->device >= 0 && on.number >= 0 && rule->device != on.number) continue;
    auto const number = static_cast<std::size_t>(rule - plan.rules.data()) + 1;
    std::uint64_t largest = 0;
    for (auto const& other : plan.rules) {
      bool const same =
          !other.chain.passthrough && other.kind == rule->kind && other.chain.chain == rule->chain.chain;
      if (same) largest = std::max(largest, other.max_size.value_or(~std::uint64_t{0}));
    }
    result.push_back({"rule " + std::to_string(number), rule->kind, &rule->chain.chain, largest});
  }
  return result;
}

void walk(config::plan const& plan, std::vector<std::string> const& names, int device, visitor const& visit) {
  walk_chain(plan, names, device, nullptr, 0, visit);
}

std::vector<config::bin> const* bins_of(config::resource_plan const& resource) {
  auto const found = resource.options.find("bins");
  return found == resource.options.end() ? nullptr : std::get_if<std::vector<config::bin>>(&found->second);
}

std::vector<std::vector<std::string>> const* branches_of(config::resource_plan const& resource) {
  auto const found = resource.options.find("chains");
  return found == resource.options.end() ? nullptr
                                         : std::get_if<std::vector<std::vector<std::string>>>(&found->second);
}

std::uint64_t bytes_of(config::resource_plan const& resource, char const* key, device const& on,
                       std::uint64_t unset) {
  auto const found = resource.options.find(key);
  auto const* const size =
      found == resource.options.end() ? nullptr : std::get_if<config::size_value>(&found->second);
  if (size == nullptr) return unset;
  if (size->kind != config::size_value::unit::bytes && on.total == 0) return unset;
  return size->resolve(on.total, on.total);
}

}  // namespace gpumem::cli
