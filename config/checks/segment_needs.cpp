// See segment_needs.hpp.
#include "config/checks/segment_needs.hpp"

#include <set>

namespace gpumem::config {
namespace {

bool asks(plan const& of, resource_plan const& resource, int device, std::set<std::string>& seen) {
  if (cuts_segments(resource.type)) return true;
  auto const found = resource.options.find("bins");
  auto const* const list =
      found == resource.options.end() ? nullptr : std::get_if<std::vector<bin>>(&found->second);
  if (resource.type != "binning" || list == nullptr || !seen.insert(resource.name).second) return false;
  for (bin const& b : *list) {
    if (b.to.empty()) return true;  // fixed_size blocks of its own
    resource_plan const* const to = of.find(b.to, device);
    if (to != nullptr && asks(of, *to, device, seen)) return true;
  }
  return false;
}

}  // namespace

bool asks_for_segments(plan const& of, resource_plan const& resource, int device) {
  std::set<std::string> seen;  // cycles are told elsewhere
  return asks(of, resource, device, seen);
}

}  // namespace gpumem::config
