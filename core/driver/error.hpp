// The one exception type inside a chain: thrown by sources and resources, caught by the ladder of a
// suballocator and, last, by the router. Carries the driver's own code unchanged and a reason for the report.
// No heap of our own.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <exception>

namespace gpumem::driver {

class allocation_failed : public std::exception {
 public:
  // `who` refused; `reason` says why, in plain words with numbers.
  explicit allocation_failed(CUresult code, char const* who = "driver", char const* reason = "") noexcept
      : code_(code) {
    std::snprintf(text_, sizeof text_, "%s: %s", who, reason);
  }
  CUresult code() const noexcept { return code_; }
  char const* what() const noexcept override { return text_; }

 private:
  CUresult code_;
  char text_[160];
};

}  // namespace gpumem::driver
