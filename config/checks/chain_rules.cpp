// Chain rules; see chain_rules.hpp. One thread, once a load.
// What follows a resource in its chain is its upstream; a bin's resource has the upstream of its binning.
#include "config/checks/chain_rules.hpp"

#include <set>

#include "config/checks/chain_cycles.hpp"
#include "config/checks/chain_order.hpp"
#include "config/checks/chain_sizes.hpp"
#include "config/checks/chain_view.hpp"
#include "config/reader/sections/resource_reader.hpp"
#include "core/base/text/bytes.hpp"

namespace gpumem::config {
namespace {

void check_bin_fits(bin const& entry, resource_plan const* target, file_position at, draft const& all,
                    std::string const& where, diagnostics& out) {
  if (target == nullptr || target->type != "fixed_size") return;
  auto const block = target->options.find("block_size");
  if (block == target->options.end()) return;
  auto const* const size = std::get_if<size_value>(&block->second);
  if (size == nullptr || size->bytes >= entry.max) return;
  file_position const defined =
      all.where(where + entry.to + ".block_size", "resource." + entry.to + ".block_size");
  auto const shown = [](std::uint64_t bytes) { return std::string(base::print_exact_bytes(bytes).view()); };
  out.error("E305", at,
            "bin of up to " + shown(entry.max) + " goes to " + quoted(entry.to) + ", whose blocks are " +
                shown(size->bytes) + " (" + std::to_string(defined.line) + ":" +
                std::to_string(defined.column) + ")",
            "set its block_size to " + quoted(shown(entry.max)) + ", or leave `to` out");
}

// A name in a bin or a chain of resource `user`; one that is used only there becomes a resource here.
void resolve(draft& all, std::string const& name, file_position at, std::string const& user,
             diagnostics& out) {
  if (all.result.resources.contains(name)) return;
  if (!resolve_name(name, at, user, all, out)) return;
  complete(all.result.resources.at(name), "resource." + name, all, out);
}

// Names in the bins and chains of every resource, so that a typing error is found also where no route uses
// it.
void resolve_parts(draft& all, resource_plan const& resource, int device, diagnostics& out) {
  auto const* const bins = bins_of(resource);
  for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
    if ((*bins)[i].to.empty()) continue;
    resolve(all, (*bins)[i].to, bin_position(all, device, resource.name, i),
            "a bin of " + quoted(resource.name), out);
  }
  auto const* const chains = chains_of(resource);
  for (std::size_t i = 0; chains != nullptr && i < chains->size(); ++i) {
    std::string const key = resource.name + ".chains." + std::to_string(i) + ".";
    for (std::size_t j = 0; j < (*chains)[i].size(); ++j) {
      std::string const name = key + std::to_string(j);
      resolve(all, (*chains)[i][j],
              all.where("device." + std::to_string(device) + "." + name, "resource." + name,
                        "resource." + resource.name),
              "chain " + std::to_string(i + 1) + " of " + quoted(resource.name), out);
    }
  }
}

void check_bins(resource_plan const& binning, int device, draft const& all, diagnostics& out) {
  auto const* const bins = bins_of(binning);
  std::string const number = "device." + std::to_string(device) + ".";
  for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
    if ((*bins)[i].to.empty()) continue;
    check_bin_fits((*bins)[i], all.result.find((*bins)[i].to, device),
                   bin_position(all, device, binning.name, i), all, number, out);
  }
}

void reach(plan const& result, std::string const& id, std::set<std::string>& used) {
  if (!used.insert(id).second) return;
  auto const follow = [&](resource_plan const* resource) {
    if (resource == nullptr) return;
    if (auto const* const bins = bins_of(*resource)) {
      for (auto const& entry : *bins) reach(result, entry.to, used);
    }
    if (auto const* const chains = chains_of(*resource)) {
      for (auto const& chain : *chains) {
        for (auto const& name : chain) reach(result, name, used);
      }
    }
  };
  follow(result.find(id, -1));
  for (auto const& [number, resources] : result.devices) follow(result.find(id, number));
}

void check_unused(draft const& all, diagnostics& out) {
  std::set<std::string> used;
  for (auto const* route : {&all.result.device, &all.result.managed, &all.result.host}) {
    for (auto const& id : route->chain) reach(all.result, id, used);
  }
  for (auto const& rule : all.result.rules) {
    for (auto const& id : rule.chain.chain) reach(all.result, id, used);
  }
  for (auto const& [name, resource] : all.result.resources) {
    if (used.contains(name)) continue;
    bool const declared = all.declared.contains(name);
    out.warning(
        "W501", all.where("resource." + name),
        declared ? "[resource." + name + "] is used by no chain" : quoted(name) + " is used by no chain",
        "name it in a chain of [route] or of a [[rule]], or remove it");
  }
}

void check_chain(chain_view const& view) {
  check_order(view);
  check_cycles(view);
  check_sizes(view);
  check_parts(view);
}

}  // namespace

void check_chains(draft& all, diagnostics& out) {
  plan const& result = all.result;
  std::vector<std::string> names;  // a copy: resolving adds resources
  for (auto const& [name, resource] : result.resources) names.push_back(name);
  std::vector<int> devices{-1};
  for (auto const& [number, overrides] : result.devices) devices.push_back(number);

  for (int device : devices) {
    for (auto const& name : names) resolve_parts(all, *result.find(name, device), device, out);
  }
  for (int device : devices) {
    for (auto const& [name, resource] : result.resources)
      check_bins(*result.find(name, device), device, all, out);
    for (auto const& [name, route] : {std::pair<char const*, route_plan const*>{"device", &result.device},
                                      {"managed", &result.managed},
                                      {"host", &result.host}}) {
      std::string const where = "route." + std::string(name);
      check_chain({where, "", where, name, route->chain, device, false, all, out});
    }
    for (std::size_t i = 0; i < result.rules.size(); ++i) {
      std::string const rule = "rule." + std::to_string(i) + ".chain";
      check_chain({rule, "", "the chain of rule " + std::to_string(i + 1), result.rules[i].kind,
                   result.rules[i].chain.chain, device, false, all, out});
    }
  }
  // After an error in a chain "unused" would often be its echo.
  if (!out.has_errors()) check_unused(all, out);
}

}  // namespace gpumem::config
