// Visits the chains of a plan one by one, and the resources of each, through bins and fallbacks: shared by
// the tree, the memory taken at start and the traps of `gpumem check`. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/plan/plan.hpp"
#include "shim/cli/check/device_list.hpp"

namespace gpumem::cli {

// A chain that is built: of a route, or of rules that name it alone.
struct built_chain {
  std::string label;  // "device", "rule 2"
  std::string kind;   // whose memory: "device", "managed", "host"
  std::vector<std::string> const* names;
  std::uint64_t largest = ~std::uint64_t{0};  // request that comes here: rules may have a max_size
};

// Those that serve requests on `on`, in the order of the file.
std::vector<built_chain> chains_of(config::plan const& plan, device const& on);

// Where a resource stands.
struct position {
  std::vector<std::string> const& names;  // its chain
  std::size_t index;                      // in it; of its binning, for the resource of a bin
  bool of_bin = false;
  bool of_fallback = false;
  std::size_t branch = 0;  // number of the fallback's chain
};
// Each resource once for each file_position it stands in; ends in cycles too.
void walk(config::plan const& plan, std::vector<std::string> const& names, int device,
          std::function<void(config::resource_plan const&, position const&)> const& visit);

// Null: none are set.
std::vector<config::bin> const* bins_of(config::resource_plan const& resource);
std::vector<std::vector<std::string>> const* branches_of(config::resource_plan const& resource);

// The option as bytes on a device: `unset` if it is not set, a word, or a share of an unknown size.
std::uint64_t bytes_of(config::resource_plan const& resource, char const* key, device const& on,
                       std::uint64_t unset);

}  // namespace gpumem::cli
