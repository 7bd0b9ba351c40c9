// The questions that decide on a chain, RMM's and two more, answered for one device from figures alone, each
// with an example of config/examples where the answer asks for another chain. Pure; every sentence names the
// figures it rests on. For `gpumem check --recommend`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shim/cli/recommend/use.hpp"

namespace gpumem::cli {

struct answer {
  std::string_view question;
  bool yes = false;
  std::string facts;
  // With a yes alone: a file of config/examples, or where no chain helps what does; and why.
  std::string example, instead;
  std::string reason;
};

// In the order in which their examples are worth a try.
std::vector<answer> answers_of(program_use const& program, device_use const& device);

// All devices, as text. `examples`: the folder that they are in, as it is shown.
std::string recommendation(program_use const& program, std::string const& examples);

}  // namespace gpumem::cli
