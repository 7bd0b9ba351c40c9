// The idle blocks of one free list by size: two-level segregated fit (Masmano et al., ECRTS 2004), 16
// classes a doubling, with a short look at several candidates so that the choice is near best fit. Insert,
// erase and find cost the same for ten blocks or a million. Blocks are linked through next/previous. Only
// its region calls it, under the owner's lock. No CUDA call.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "core/space/blocks/block_table.hpp"

namespace gpumem::stats {
struct free_blocks;
}

namespace gpumem::space {

class free_index {
 public:
  // Adds or removes one idle block; its neighbours are not looked at.
  void insert(block_table& blocks, handle h) noexcept;
  void erase(block_table& blocks, handle h) noexcept;
  // A block of at least `units`, or none. It stays in the index. Unless `thorough`, it may overlook a block
  // less than 1/16 larger than the request among very many of that class, so that its cost has a bound; what
  // it then gives is of the next class that has any.
  handle find(block_table& blocks, std::uint32_t units, bool thorough) const noexcept;
  // The tightest that `wanted` of the first class that has one; it looks at `most` blocks and no more.
  template <typename Predicate>
  handle find_near(block_table& blocks, std::uint32_t units, int& most, Predicate wanted) const noexcept {
    auto [row, column] = place_of(units);
    for (; row < rows; ++row, column = 0) {
      std::uint32_t classes = (rows_ >> row & 1) != 0
                                  ? columns_[static_cast<std::size_t>(row)] & (~std::uint32_t{0} << column)
                                  : 0;
      for (; classes != 0; classes &= classes - 1) {
        handle best = none;
        auto const at = static_cast<std::size_t>(std::countr_zero(classes));
        for (handle h = heads_[static_cast<std::size_t>(row)][at]; h != none && most-- > 0;
             h = blocks[h].next) {
          bool const tighter = best == none || blocks[h].units < blocks[best].units;
          if (blocks[h].units >= units && tighter && wanted(h)) best = h;
        }
        if (best != none || most <= 0) return best;
      }
    }
    return none;
  }
  // Units of the largest block, 0 when empty.
  std::uint32_t largest(block_table& blocks) const noexcept;
  bool empty() const noexcept { return rows_ == 0; }
  // Any block, or none.
  handle any() const noexcept;
  // The first block that `wanted` among those of at least `units`, bigger classes first; linear.
  template <typename Predicate>
  handle find_if(block_table& blocks, std::uint32_t units, Predicate wanted) const noexcept {
    for (int row = rows; row-- > place_of(units).row;) {
      for (int column = (rows_ >> row & 1) != 0 ? columns : 0; column-- > 0;) {
        for (handle h = heads_[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)]; h != none;
             h = blocks[h].next) {
          if (blocks[h].units >= units && wanted(h)) return h;
        }
      }
    }
    return none;
  }

  // Adds the blocks of each row, from `row` on, until some have been looked at: the owner lets go of its lock
  // then. The row to go on with; negative: that was all.
  int count(block_table& blocks, int row, stats::free_blocks& to) const noexcept;

 private:
  static constexpr int columns = 16;
  static constexpr int rows = 29;  // row 0: below 16 units, exact; row r: [2^(r+3), 2^(r+4))
  // Row and column of a size: its doubling, and its class within.
  struct place {
    int row;
    int column;
  };
  static place place_of(std::uint32_t units) noexcept;

  std::uint32_t rows_ = 0;  // bit r: row r has blocks
  std::array<std::uint16_t, rows> columns_{};
  std::array<std::array<handle, columns>, rows> heads_{};
};

}  // namespace gpumem::space
