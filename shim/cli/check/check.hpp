// `gpumem check`: all errors and warnings of a configuration with their positions, what it resolves to on the
// devices of this machine, what it takes at start, and its traps; and, given a program, whether it can be
// intercepted. Or, of a report or a recording, which configuration to try.
#pragma once

#include <string>
#include <vector>

#include "config/load.hpp"
#include "shim/cli/check/device_list.hpp"
#include "shim/cli/programs/interception.hpp"

namespace gpumem::cli {

struct check_options {
  std::string file;  // empty: what the environment says
  bool strict = false;
  std::string device_memory;         // "80 GiB": instead of the devices of this machine
  std::string recommend{};           // a report or recording, instead of a configuration
  std::vector<std::string> command;  // empty: no program
};

// 0 good, 1 warnings or traps under --strict, 2 errors, or a program that cannot be intercepted, 3 could not
// be written.
int check(check_options const& options);

// The tree, the memory and the traps; devices with the same are told together.
std::string describe_plan(config::plan const& plan, std::vector<device> const& devices, bool& has_traps);

// What was found in a program, and whether it can be intercepted.
std::string describe_program(std::string const& name, interception const& seen);

}  // namespace gpumem::cli
