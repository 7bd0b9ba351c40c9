// See chain_order.hpp. Walks a chain from its top and remembers what stands above.
#include "config/checks/chain_order.hpp"

#include <set>

#include "config/checks/segment_needs.hpp"
#include "config/text/suggest.hpp"

namespace gpumem::config {
namespace {

// These must see the program's own requests.
bool wants_requests(std::string_view type) noexcept {
  return type == "aligned" || type == "guard" || type == "tracking";
}

char const* why_requests(std::string_view type) noexcept {
  if (type == "aligned") return "it would align segments, not the blocks cut from them";
  if (type == "guard") return "it would fill and check segments, not the program's blocks";
  return "it would track segments, not the program's blocks";
}

std::string adaptors_of(std::string_view route) {
  std::vector<std::string_view> names;
  for (auto const& type : all_types()) {
    if (type.part == role::adaptor && holds_word(type.routes, route)) names.push_back(type.name);
  }
  return "it can hold: " + joined(names);
}

class walk {
 public:
  explicit walk(chain_view const& top) { chain(top, {}); }

 private:
  struct above {
    std::string cutter;  // what cuts segments, if anything does
    std::string pool;
  };

  void chain(chain_view const& view, above over) {
    bool misplaced = false;
    for (std::size_t i = 0; i < view.names.size(); ++i) {
      std::string const& id = view.names[i];
      type_info const* const type = view.type(id);
      if (type == nullptr) continue;
      bool const last = i + 1 == view.names.size();
      if (type->part != role::adaptor && !last) {
        misplaced = true;
        must_be_last(view, i, *type);
        continue;
      }
      if (type->part == role::adaptor && last && !misplaced) {
        view.out.error("E304", view.at(i),
                       quoted(id) + " needs a resource after it, where its memory comes from",
                       drivers_of(view.route));
      }
      part(view, id, i + 1, view.at(i), over);
      if (type->name == "pool" && !over.pool.empty() && over.pool != id) {
        view.out.warning("W502", view.at(i), quoted(id) + " is a pool below the pool " + quoted(over.pool),
                         "what one of them caches the other cannot use; one pool is enough");
      }
      if (type->name == "pool") over.pool = id;
      if (over.cutter.empty() && asks_for_segments(view.all.result, *view.resource(id), view.device))
        over.cutter = id;
    }
  }

  // A resource of the chain or of a bin; `below` is the index of what it draws from.
  void part(chain_view const& view, std::string const& id, std::size_t below, file_position at,
            above const& over) {
    resource_plan const& resource = *view.resource(id);
    type_info const& type = *view.type(id);
    if (!holds_word(type.routes, view.route)) {
      view.out.error("E307", at, quoted(id) + " cannot serve " + view.shown,
                     type.part == role::adaptor ? adaptors_of(view.route) : drivers_of(view.route));
      return;
    }
    if (view.of_fallback && type.part == role::junction) {
      view.out.error("E309", at, quoted(id) + " is a fallback in a chain of a fallback",
                     "write its chains into the list of the outer one");
      return;
    }
    if (type.name == "prefetch") needs_managed(view, id, below, at);
    if (wants_requests(type.name) && !over.cutter.empty()) {
      view.out.error("E311", at, quoted(id) + " stands below " + quoted(over.cutter),
                     std::string(why_requests(type.name)) + "; move it above");
    }
    auto const* const bins = resource.type == "binning" ? bins_of(resource) : nullptr;
    for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
      std::string const& to = (*bins)[i].to;
      if (to.empty() || view.type(to) == nullptr || !entered_.insert(id + "." + to + "." + view.where).second)
        continue;
      part(view, to, below, bin_position(view.all, view.device, id, i), over);
    }
    for (auto const& branch : branches(resource, view)) {
      if (entered_.insert(branch.where + "." + over.cutter).second) chain(branch, over);
    }
  }

  static void must_be_last(chain_view const& view, std::size_t index, type_info const& type) {
    std::string const& id = view.names[index];
    bool const driver = type.part == role::driver;
    view.out.error("E303", view.at(index),
                   quoted(id) + (driver ? " is a driver and must be the last of its chain"
                                        : " has chains of its own and must be the last of this one"),
                   view.names.back() == id
                       ? "it is the last already: remove it here"
                       : "move it behind " + quoted(view.names.back()) + ", or remove what follows it");
  }

  static void needs_managed(chain_view const& view, std::string const& id, std::size_t below,
                            file_position at) {
    if (below >= view.names.size()) return;
    std::string const& end = view.names.back();
    resource_plan const* const last = view.resource(end);
    if (last == nullptr) return;
    std::vector<std::string> drivers{end};
    if (last->type == "fallback") {
      drivers.clear();
      for (auto const& branch : branches(*last, view)) drivers.push_back(branch.names.back());
    }
    for (auto const& driver : drivers) {
      type_info const* const type = view.type(driver);
      if (type == nullptr || type->part != role::driver || type->is("managed")) continue;
      view.out.error("E310", at, quoted(id) + " moves managed memory, and below it stands " + quoted(driver),
                     "end the chain in \"managed\", or remove " + quoted(id));
      return;
    }
  }

  std::set<std::string> entered_;  // bins and branches that were walked: cycles end here
};

}  // namespace

void check_order(chain_view const& chain) {
  walk{chain};
}

}  // namespace gpumem::config
