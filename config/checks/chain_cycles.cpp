// See chain_cycles.hpp. Depth first over "draws from"; the message shows the path that closes a cycle.
#include "config/checks/chain_cycles.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace gpumem::config {
namespace {

class search {
 public:
  explicit search(chain_view const& top) : top_(top) {}

  void run() { step(top_, 0); }

 private:
  void step(chain_view const& view, std::size_t index) {
    if (index < view.names.size()) visit(view, view.names[index], index + 1, view.at(index));
  }

  // `below`: the index in `view` of what `id` draws from.
  void visit(chain_view const& view, std::string const& id, std::size_t below, file_position at) {
    auto const open = std::find(way_.begin(), way_.end(), id);
    if (open != way_.end()) {
      std::string text;
      for (auto step = open; step != way_.end(); ++step) text += *step + " -> ";
      top_.out.error("E302", at, top_.shown + " has a cycle: " + text + id,
                     "a resource can draw only from what stands below it");
      return;
    }
    if (!done_.insert({id, view.where, below}).second) return;
    way_.push_back(id);
    resource_plan const* const resource = view.resource(id);
    type_info const* const type = view.type(id);
    if (resource != nullptr && resource->type == "binning") {
      auto const* const bins = bins_of(*resource);
      for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
        std::string const& to = (*bins)[i].to;
        if (to.empty()) continue;
        // A name of the same chain means that resource, any other one draws from what the binning draws from.
        auto const self = std::find(view.names.begin(), view.names.end(), to);
        visit(view, to,
              self == view.names.end() ? below : static_cast<std::size_t>(self - view.names.begin()) + 1,
              bin_position(view.all, view.device, id, i));
      }
    }
    if (resource != nullptr) {
      for (auto const& branch : branches(*resource, view)) step(branch, 0);
    }
    // A driver's upstream is the device, whatever stands after it by mistake.
    if (type == nullptr || type->part == role::adaptor) step(view, below);
    way_.pop_back();
  }

  chain_view const& top_;
  std::vector<std::string> way_;
  std::set<std::tuple<std::string, std::string, std::size_t>> done_;
};

}  // namespace

void check_cycles(chain_view const& chain) {
  search(chain).run();
}

}  // namespace gpumem::config
