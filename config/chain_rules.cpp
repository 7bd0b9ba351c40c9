// Chain rules; see chain_rules.hpp. One thread, once a load.
// What follows a resource in its chain is its upstream; a bin's resource has the upstream of its binning.
#include "config/chain_rules.hpp"

#include <algorithm>
#include <set>

#include "config/resource_reader.hpp"
#include "config/schema.hpp"
#include "config/suggest.hpp"
#include "core/base/bytes.hpp"

namespace gpumem::config {
namespace {

// One route under its name, with what its rules need.
struct chain_view {
  std::string name;  // "device"
  route_plan const& route;
  int device;  // -1: those without values of their own
  draft const& all;
  findings& out;

  std::string where() const { return "route." + name; }
  place at(std::size_t index) const { return all.where(where() + "." + std::to_string(index), where()); }
  resource_plan const* resource(std::string const& id) const {
    return all.broken.contains(id) ? nullptr : all.result.find(id, device);
  }
  type_info const* type(std::string const& id) const {
    auto const* found = resource(id);
    return found == nullptr ? nullptr : find_type(found->type);
  }
};

std::string drivers_of(std::string_view route) {
  std::vector<std::string_view> names;
  for (auto const& type : all_types()) {
    if (type.part == role::driver && holds_word(type.routes, route)) names.push_back(type.name);
  }
  return "its drivers are: " + joined(names);
}

std::vector<bin> const* bins_of(resource_plan const& resource) {
  auto const found = resource.options.find("bins");
  return found == resource.options.end() ? nullptr : std::get_if<std::vector<bin>>(&found->second);
}

place bin_place(draft const& all, int device, std::string const& binning, std::size_t index) {
  std::string const bin = binning + ".bins." + std::to_string(index) + ".to";
  return all.where("device." + std::to_string(device) + "." + bin, "resource." + bin, "resource." + binning);
}

// Depth first over "serves from"; the way that closes a cycle is the message.
class cycle_search {
 public:
  explicit cycle_search(chain_view const& view) : view_(view) {}

  void run() {
    if (!view_.route.chain.empty()) visit(view_.route.chain.front(), 0, view_.at(0));
  }

 private:
  void visit(std::string const& id, std::size_t depth, place at) {
    auto const open = std::find(way_.begin(), way_.end(), id);
    if (open != way_.end()) {
      std::string text;
      for (auto step = open; step != way_.end(); ++step) text += *step + " -> ";
      view_.out.error("E302", at, view_.where() + " has a cycle: " + text + id,
                      "a resource can draw only from what stands below it");
      return;
    }
    if (!done_.insert(id).second) return;
    resource_plan const* const resource = view_.resource(id);
    way_.push_back(id);
    auto const& chain = view_.route.chain;
    auto const self = std::find(chain.begin(), chain.end(), id);
    std::size_t const below =
        self == chain.end() ? depth + 1 : static_cast<std::size_t>(self - chain.begin()) + 1;
    if (resource != nullptr && resource->type == "binning") {
      auto const* const bins = bins_of(*resource);
      for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
        if ((*bins)[i].to.empty()) continue;
        place const entry = bin_place(view_.all, view_.device, id, i);
        visit((*bins)[i].to, below - 1, entry);
        type_info const* const target = view_.type((*bins)[i].to);
        if (target == nullptr || target->part != role::driver || holds_word(target->routes, view_.name))
          continue;
        view_.out.error("E307", entry, quoted((*bins)[i].to) + " cannot serve " + view_.where(),
                        drivers_of(view_.name));
      }
    }
    // A driver's upstream is the device, whatever stands after it by mistake.
    type_info const* const type = view_.type(id);
    bool const driver = type != nullptr && type->part == role::driver;
    if (!driver && below < chain.size()) visit(chain[below], below, view_.at(below));
    way_.pop_back();
  }

  chain_view const& view_;
  std::vector<std::string> way_;
  std::set<std::string> done_;
};

void check_order(chain_view const& view) {
  auto const& chain = view.route.chain;
  std::string pool;
  bool misplaced = false;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    type_info const* const type = view.type(chain[i]);
    if (type == nullptr) continue;
    bool const last = i + 1 == chain.size();
    bool const driver = type->part == role::driver;
    if (driver && !last) {
      misplaced = true;
      view.out.error("E303", view.at(i), quoted(chain[i]) + " is a driver and must be the last of its chain",
                     chain.back() == chain[i]
                         ? "it is the last already: remove it here"
                         : "move it behind " + quoted(chain.back()) + ", or remove what follows it");
    }
    if (!driver && last && !misplaced) {
      view.out.error("E304", view.at(i),
                     quoted(chain[i]) + " needs a resource after it, where its memory comes from",
                     drivers_of(view.name));
    }
    if (driver && last && !holds_word(type->routes, view.name)) {
      view.out.error("E307", view.at(i), quoted(chain[i]) + " cannot serve " + view.where(),
                     drivers_of(view.name));
    }
    if (driver && last && view.name == "host" && chain.size() > 1 && type->name == "pinned_host") {
      view.out.error("E308", view.at(0), "a resource over \"pinned_host\" is not in this version",
                     "write host = [" + quoted(chain[i]) + "]");
    }
    if (type->name != "pool") continue;
    if (!pool.empty() && pool != chain[i]) {
      view.out.warning("W502", view.at(i), quoted(chain[i]) + " is a pool below the pool " + quoted(pool),
                       "what one of them caches the other cannot use; one pool is enough");
    }
    pool = chain[i];
  }
}

void check_bin_fits(bin const& entry, resource_plan const* target, place at, draft const& all,
                    std::string const& where, findings& out) {
  if (target == nullptr || target->type != "fixed_size") return;
  auto const block = target->options.find("block_size");
  if (block == target->options.end()) return;
  auto const* const size = std::get_if<size_value>(&block->second);
  if (size == nullptr || size->bytes >= entry.max) return;
  place const defined = all.where(where + entry.to + ".block_size", "resource." + entry.to + ".block_size");
  auto const shown = [](std::uint64_t bytes) { return std::string(base::print_exact_bytes(bytes).view()); };
  out.error("E305", at,
            "bin of up to " + shown(entry.max) + " goes to " + quoted(entry.to) + ", whose blocks are " +
                shown(size->bytes) + " (" + std::to_string(defined.line) + ":" +
                std::to_string(defined.column) + ")",
            "set its block_size to " + quoted(shown(entry.max)) + ", or leave `to` out");
}

// Names in the bins of every binning, so that a typing error is found also where no route uses it.
void resolve_bins(draft& all, resource_plan const& binning, int device, findings& out) {
  auto const* const bins = bins_of(binning);
  for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
    std::string const to = (*bins)[i].to;
    if (to.empty() || all.result.resources.contains(to)) continue;
    place const at = bin_place(all, device, binning.name, i);
    if (!resolve_name(to, at, "a bin of " + quoted(binning.name), all, out)) continue;
    complete(all.result.resources.at(to), "resource." + to, all, out);
  }
}

void check_bins(resource_plan const& binning, int device, draft const& all, findings& out) {
  auto const* const bins = bins_of(binning);
  std::string const number = "device." + std::to_string(device) + ".";
  for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
    if ((*bins)[i].to.empty()) continue;
    check_bin_fits((*bins)[i], all.result.find((*bins)[i].to, device),
                   bin_place(all, device, binning.name, i), all, number, out);
  }
}

void reach(plan const& result, std::string const& id, std::set<std::string>& used) {
  if (!used.insert(id).second) return;
  auto const follow = [&](resource_plan const* resource) {
    auto const* const bins = resource == nullptr ? nullptr : bins_of(*resource);
    if (bins == nullptr) return;
    for (auto const& entry : *bins) reach(result, entry.to, used);
  };
  follow(result.find(id, -1));
  for (auto const& [number, resources] : result.devices) follow(result.find(id, number));
}

void check_unused(draft const& all, findings& out) {
  std::set<std::string> used;
  for (auto const* route : {&all.result.device, &all.result.managed, &all.result.host}) {
    for (auto const& id : route->chain) reach(all.result, id, used);
  }
  for (auto const& [name, resource] : all.result.resources) {
    if (used.contains(name)) continue;
    bool const declared = all.declared.contains(name);
    out.warning(
        "W501", all.where("resource." + name),
        declared ? "[resource." + name + "] is used by no route" : quoted(name) + " is used by no route",
        "name it in a chain of [route], or remove it");
  }
}

}  // namespace

void check_chains(draft& all, findings& out) {
  plan const& result = all.result;
  std::vector<std::string> names;  // a copy: resolving adds resources
  for (auto const& [name, resource] : result.resources) names.push_back(name);
  std::vector<int> devices{-1};
  for (auto const& [number, overrides] : result.devices) devices.push_back(number);

  for (int device : devices) {
    for (auto const& name : names) resolve_bins(all, *result.find(name, device), device, out);
  }
  for (int device : devices) {
    for (auto const& [name, resource] : result.resources)
      check_bins(*result.find(name, device), device, all, out);
    for (auto const& [name, route] : {std::pair<char const*, route_plan const*>{"device", &result.device},
                                      {"managed", &result.managed},
                                      {"host", &result.host}}) {
      chain_view const view{name, *route, device, all, out};
      check_order(view);
      cycle_search(view).run();
    }
  }
  // After an error in a chain "unused" would often be its echo.
  if (!out.has_errors()) check_unused(all, out);
}

}  // namespace gpumem::config
