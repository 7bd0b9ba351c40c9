// Where the blocks of one segment begin: a bit for each unit, and above it levels of bits that say which
// words below are not zero. Finds the block that holds an address in a few steps, however many there are.
// Made by region at the first question about an interior pointer of the segment, then kept up to date;
// always under the owner's lock. At most 1/4096 of the segment, in pages that appear when bits are set.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/base/threads/heap.hpp"

namespace gpumem::space {

class start_map {
 public:
  // Room for units 0 to `units` - 1, no bit set. False when memory is short; the map is then empty.
  bool reset(std::uint64_t units) noexcept;
  bool empty() const noexcept { return depth_ == 0; }

  // A block begins at this unit of the segment; clear(): no longer.
  void set(std::uint64_t at) noexcept {
    for (std::size_t level = 0; level < depth_; ++level, at >>= 6) {
      std::uint64_t& word = levels_[level][at >> 6];
      bool const was_empty = word == 0;
      word |= bit(at);
      if (!was_empty) return;
    }
  }
  void clear(std::uint64_t at) noexcept {
    for (std::size_t level = 0; level < depth_; ++level, at >>= 6) {
      std::uint64_t& word = levels_[level][at >> 6];
      word &= ~bit(at);
      if (word != 0) return;
    }
  }

  static constexpr std::uint64_t nothing = ~std::uint64_t{0};
  // The last set bit that is not behind `at`, or nothing.
  std::uint64_t last_up_to(std::uint64_t at) const noexcept;

 private:
  struct give_back {
    void operator()(std::uint64_t* words) const noexcept { base::heap::release(words); }
  };
  static constexpr std::size_t most_levels = 6;  // 2^32 units

  static std::uint64_t bit(std::uint64_t at) noexcept { return std::uint64_t{1} << (at & 63); }

  std::unique_ptr<std::uint64_t, give_back> words_;
  std::array<std::uint64_t*, most_levels> levels_{};  // level 0: the units; the last has one word
  std::size_t depth_ = 0;
};

}  // namespace gpumem::space
