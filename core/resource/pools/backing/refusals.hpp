// What a suballocator refuses, in words: who (its type, and its name in the configuration), why, by which
// figures. Made on the way out of a request that cannot be served; nothing is thrown here. Any thread.
#pragma once

#include <cstdint>

#include "core/driver/error.hpp"
#include "core/resource/pools/backing/growth_policy.hpp"

namespace gpumem::resource {

class refusals {
 public:
  // `type`: as in the configuration. Both outlive this.
  refusals(char const* type, suballocator_options const& options) noexcept : type_(type), options_(options) {}

  // More than the largest block that it makes.
  driver::allocation_failed larger_than(std::uint64_t largest, std::uint64_t asked) const noexcept;
  // More than its maximum, with `reserved` bytes taken already.
  driver::allocation_failed at_maximum(std::uint64_t reserved, std::uint64_t asked) const noexcept;
  // No host memory to keep track of the memory that was got.
  driver::allocation_failed no_tables() const noexcept;
  // The driver would have none, as it had none a moment ago: in the words of upstream/cuda, which alone knows
  // that.
  driver::allocation_failed no_memory(std::uint64_t asked) const noexcept;
  // The driver had no pages, and said this code.
  driver::allocation_failed no_pages(std::uint64_t asked, CUresult code) const noexcept;
  // The context ended meanwhile.
  driver::allocation_failed no_context() const noexcept;

 private:
  driver::allocation_failed by(driver::refused_by kind, char const* why) const noexcept;

  char const* const type_;
  suballocator_options const& options_;
};

}  // namespace gpumem::resource
