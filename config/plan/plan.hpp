// The validated configuration: plain values, no TOML. Made by config/checks/validate from file and
// environment, read by config/builder/builder and by `gpumem check`; immutable afterwards, so any thread may
// read it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/route/rules/free_mode.hpp"
#include "core/stats/page/categories.hpp"

namespace gpumem::config {

// "512 MiB", "50 % of free", "90 % of total": percentages become bytes when the device is known.
struct size_value {
  enum class unit : std::uint8_t { bytes, percent_of_free, percent_of_total };
  unit kind = unit::bytes;
  double percent = 0;
  std::uint64_t bytes = 0;

  // In bytes, on a device with these figures.
  std::uint64_t resolve(std::uint64_t free_bytes, std::uint64_t total_bytes) const noexcept;
};

// Where a value came from, for the report: "chain.toml:12:5", "GPUMEM_REPORT", "default".
struct origin {
  std::string text = "default";
};

struct bin {
  std::uint64_t max = 0;  // bytes
  std::string to;         // name of a resource; empty: fixed_size blocks of `max`
};

using option = std::variant<bool, std::int64_t, std::string, size_value, std::vector<bin>,
                            std::vector<std::vector<std::string>>>;

// One resource: its type, name and options.
struct resource_plan {
  std::string name;
  std::string type;
  std::map<std::string, option> options;  // only what was set or has a default; keys of schema.def
  std::map<std::string, origin> origins;
};

struct route_plan {
  bool passthrough = true;
  std::vector<std::string> chain;  // names, top first, driver last
  origin where;
};

// One [[rule]]; the first that matches wins.
struct rule_plan {
  std::string name;          // asked for by the program; empty: of all other requests
  std::string library, api;  // patterns; empty: any
  std::optional<std::uint64_t> min_size, max_size;
  int device = -1;  // -1: any
  std::string kind = "device";
  route_plan chain;
  std::map<std::string, origin> origins;
};

enum class on_error : std::uint8_t { abort, passthrough };
using route::free_mode;

// All that the configuration says.
struct plan {
  std::string path;  // of the file, empty: built-in default
  std::string text;  // the effective configuration, as TOML
  route_plan device, managed, host;
  bool pools = false;  // of the program's, served by the chain of `device`
  std::vector<rule_plan> rules;
  std::map<std::string, resource_plan> resources;  // by name; every name used by a chain is here
  std::map<int, std::map<std::string, resource_plan>>
      devices;  // [device.N]: full, merged resources for that device
  free_mode free = free_mode::deferred;
  on_error error_policy = on_error::abort;
  std::string report_text = "stderr";                    // stderr | none | pattern
  std::string report_json;                               // empty: none
  std::uint64_t sample_every = std::uint64_t{32} << 20;  // bytes; 0: never
  bool phases = false;                                   // of NVTX
  std::vector<stats::category> categories;               // in the order of the file
  std::string recording_file = "none";                   // or pattern
  std::uint64_t recording_max_bytes = 0;                 // of the file; 0: no limit
  std::string log_level = "warn";
  std::string log_pattern;                // empty: the default
  std::string log_file = "stderr";        // or pattern
  std::vector<std::string> warnings;      // rendered diagnostics
  std::map<std::string, origin> origins;  // "behavior.free" -> where

  // Of "device", "managed" or "host".
  route_plan const& route_of(std::string const& kind) const;
  // The resource `name` as device `device` sees it.
  resource_plan const* find(std::string const& name, int device) const;
};

}  // namespace gpumem::config
