// Sizes of a suballocator's blocks that other processes had open: the next blocks of these sizes are likely
// to be exported as well. Some sizes share a place, of which the last one counts. Under the suballocator's
// mutex, but for is_below.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace gpumem::resource {

class exported_sizes {
 public:
  void add(std::uint32_t units) noexcept {
    units_[units % units_.size()] = units;
    smallest_.store(std::min(smallest_.load(std::memory_order_relaxed), units), std::memory_order_relaxed);
  }
  bool has(std::uint32_t units) const noexcept { return units_[units % units_.size()] == units; }
  // Smaller than all of them.
  bool is_below(std::uint32_t units) const noexcept {
    return units < smallest_.load(std::memory_order_relaxed);
  }

 private:
  std::array<std::uint32_t, 256> units_{};
  std::atomic<std::uint32_t> smallest_{~std::uint32_t{0}};
};

}  // namespace gpumem::resource
