// See refusals.hpp.
#include "core/resource/pools/backing/refusals.hpp"

#include <cstdio>

#include "core/base/text/bytes.hpp"

namespace gpumem::resource {

driver::allocation_failed refusals::by(driver::refused_by kind, char const* why) const noexcept {
  char who[64];
  std::snprintf(who, sizeof who, *options_.name != '\0' ? "%s \"%s\"" : "%s", type_, options_.name);
  return driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, who, why, kind);
}

driver::allocation_failed refusals::larger_than(std::uint64_t largest, std::uint64_t asked) const noexcept {
  char text[80];
  std::snprintf(text, sizeof text, "its largest block is %.16s, asked %.16s",
                base::print_bytes(largest).view().data(), base::print_bytes(asked).view().data());
  return by(driver::refused_by::largest_block, text);
}

driver::allocation_failed refusals::at_maximum(std::uint64_t reserved, std::uint64_t asked) const noexcept {
  char text[160];
  std::snprintf(text, sizeof text, "%s %.16s, reserved %.16s, asked %.16s", options_.maximum_option,
                base::print_bytes(options_.maximum).view().data(), base::print_bytes(reserved).view().data(),
                base::print_bytes(asked).view().data());
  return by(driver::refused_by::pool_maximum, text);
}

driver::allocation_failed refusals::no_tables() const noexcept {
  return by(driver::refused_by::tables, "no host memory for its tables");
}

driver::allocation_failed refusals::no_memory(std::uint64_t asked) const noexcept {
  char text[80];
  std::snprintf(text, sizeof text, "the driver refused %.16s", base::print_bytes(asked).view().data());
  return driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "cuda", text);
}

driver::allocation_failed refusals::no_pages(std::uint64_t asked, CUresult code) const noexcept {
  char text[80];
  std::snprintf(text, sizeof text, "no pages for %.16s", base::print_bytes(asked).view().data());
  return driver::allocation_failed(code, "driver", text);
}

driver::allocation_failed refusals::no_context() const noexcept {
  return driver::allocation_failed(CUDA_ERROR_CONTEXT_IS_DESTROYED, type_, "its context has ended");
}

}  // namespace gpumem::resource
