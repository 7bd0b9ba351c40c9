// A plan in the making: the values read so far, and where each stands in the file, so that a check over
// several values can point at one. One thread, only while a configuration is loaded.
#pragma once

#include <map>
#include <set>
#include <string>

#include "config/plan/plan.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

struct draft {
  plan result;
  std::set<std::string> broken;    // resources whose type is unknown: said once, then no rule looks at them
  std::set<std::string> declared;  // resources with a table of their own
  // "resource.pool" the table, "resource.pool.growth" a value, "device.1.pool.growth", "route.device" a
  // chain, "route.device.0" a name in it, "resource.binning.bins.0" a bin.
  std::map<std::string, file_position> places;

  // Of the first key that has a position.
  template <typename... Keys>
  file_position where(Keys const&... keys) const {
    file_position found{1, 1, 1};
    bool done = false;
    auto const look = [&](std::string const& key) {
      auto const at = places.find(key);
      if (done || at == places.end()) return;
      found = at->second;
      done = true;
    };
    (look(keys), ...);
    return found;
  }
};

}  // namespace gpumem::config
