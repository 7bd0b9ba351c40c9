// How much memory the chains of a plan take before the first request is served: for `gpumem check`. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "config/plan/plan.hpp"
#include "shim/cli/check/device_list.hpp"

namespace gpumem::cli {

struct start_memory {
  std::uint64_t device = 0;   // taken from the device
  std::uint64_t managed = 0;  // of managed or system memory, wherever its pages are
  std::uint64_t host = 0;     // pinned
  bool unknown = false;       // a share of a device whose size is not known comes on top
  std::string text;           // "1 GiB by pool, 16 KiB by small"
};

start_memory memory_at_start(config::plan const& plan, device const& on);

}  // namespace gpumem::cli
