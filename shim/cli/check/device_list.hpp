// The devices of this machine, for `gpumem check`: asked from the driver without making a context, which
// would take device memory. Empty where there is no driver. Called once, on one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpumem::cli {

struct device {
  int number = -1;  // -1: any, of unknown or assumed size
  std::string name{};
  std::uint64_t total = 0;  // 0: unknown
};

std::vector<device> list_devices();

}  // namespace gpumem::cli
