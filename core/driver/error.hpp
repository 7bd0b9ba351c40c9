// The one exception type inside a chain: thrown by sources and resources, caught on the slow path of a
// suballocator and, last, by the router. Carries the driver's own code unchanged, and who refused and why,
// for the report. No heap of our own.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <exception>

namespace gpumem::driver {

// What the report's advice depends on. `tables`: what a chain keeps of its blocks has no room, and the driver
// is asked instead; it is never reported.
enum class refused_by : std::uint8_t { driver, limit, pool_maximum, largest_block, host_memory, tables };

class allocation_failed : public std::exception {
 public:
  // `who` refused; `reason` says why, in plain words with numbers.
  explicit allocation_failed(CUresult code, char const* who = "driver", char const* reason = "",
                             refused_by kind = refused_by::driver) noexcept
      : code_(code), kind_(kind) {
    std::snprintf(text_, sizeof text_, "%s: %s", who, reason);
  }
  CUresult code() const noexcept { return code_; }
  refused_by kind() const noexcept { return kind_; }
  char const* what() const noexcept override { return text_; }

 private:
  CUresult code_;
  refused_by kind_;
  char text_[240];
};

}  // namespace gpumem::driver
