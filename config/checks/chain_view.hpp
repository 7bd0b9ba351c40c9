// One chain of a route, a rule or a fallback, with what its checks need. Made and used by the rules over
// chains, once a load; one thread. Keeps references: it lives no longer than the draft.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/reader/values/draft.hpp"
#include "config/schema/schema.hpp"
#include "config/text/diagnostic.hpp"

namespace gpumem::config {

struct chain_view {
  std::string where;         // its file_position in the file: "route.device", "resource.spill.chains.0"
  std::string device_where;  // the file_position that wins, if there is one: "device.1.spill.chains.0"
  std::string shown;         // for messages
  std::string route;         // whose memory it serves: "device", "managed", "host"
  std::vector<std::string> const& names;
  int device;  // -1: those without values of their own
  bool of_fallback;
  draft const& all;
  diagnostics& out;

  // Where the name `index` of the chain stands in the file.
  file_position at(std::size_t index) const;
  // Null: unknown, which was said when it was read.
  resource_plan const* resource(std::string const& id) const;
  type_info const* type(std::string const& id) const;
};

// Null: the resource has no such key, or it was not set.
std::vector<bin> const* bins_of(resource_plan const& resource);
std::vector<std::vector<std::string>> const* chains_of(resource_plan const& resource);
// Where the name of bin `index` stands.
file_position bin_position(draft const& all, int device, std::string const& binning, std::size_t index);

// The chains of a fallback that stands in `user`.
std::vector<chain_view> branches(resource_plan const& fallback, chain_view const& user);

// "its drivers are: cuda, ..."
std::string drivers_of(std::string_view route);

}  // namespace gpumem::config
