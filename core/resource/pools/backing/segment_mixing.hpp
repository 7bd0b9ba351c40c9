// Whether a pool that spares memory keeps blocks of very different sizes out of one segment (space::region,
// take_in_proportion). It does not where that gains nothing, as such a pool asks the driver more often. It
// begins when more than ever before would be reserved while much is idle beside blocks, in segments that can
// not go back; and ends after as many growths as cost a part of a second. Part of a suballocator, under its
// mutex.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumem::resource {

class segment_mixing {
 public:
  bool is_avoided() const noexcept { return left_ != 0; }

  // A growth by so many bytes would reserve more than ever; figures as of note_growth.
  bool would_be_most(std::uint64_t bytes, std::uint64_t reserved, std::uint64_t empty) const noexcept {
    return reserved - empty + bytes > most_;
  }
  // Before a growth by `bytes`, when `reserved` are, of which `empty` go back first: segments of which
  // nothing is in use, or whole pieces. `between`: bytes that are idle in other segments; 0 over pages.
  void note_growth(std::uint64_t bytes, std::uint64_t reserved, std::uint64_t empty,
                   std::uint64_t between) noexcept {
    if (left_ != 0) --left_;
    std::uint64_t const then = reserved - empty + bytes;
    if (then > most_ && reserved >= least && between > reserved / 4) left_ = enough;
    most_ = std::max(most_, then);
  }

 private:
  static constexpr std::uint64_t least = 64ull << 20;  // what less could save is not worth it
  static constexpr std::uint32_t enough = 1024;

  std::uint64_t most_ = 0;
  std::uint32_t left_ = 0;
};

}  // namespace gpumem::resource
