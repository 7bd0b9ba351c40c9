// See start_map.hpp.
#include "core/space/blocks/start_map.hpp"

#include "core/base/threads/heap.hpp"

namespace gpumem::space {

bool start_map::reset(std::uint64_t units) noexcept {
  std::array<std::uint64_t, most_levels> words{};
  std::uint64_t total = 0;
  depth_ = 0;
  do {
    units = (units + 63) / 64;
    words[depth_++] = units;
    total += units;
  } while (units > 1 && depth_ < most_levels);
  // calloc takes what is large from the kernel, as pages that cost nothing until they are written.
  words_.reset(static_cast<std::uint64_t*>(base::heap::allocate_zeroed(total, sizeof(std::uint64_t))));
  if (words_ == nullptr) {
    depth_ = 0;
    return false;
  }
  std::uint64_t* next = words_.get();
  for (std::size_t level = 0; level < depth_; ++level) {
    levels_[level] = next;
    next += words[level];
  }
  return true;
}

std::uint64_t start_map::last_up_to(std::uint64_t at) const noexcept {
  std::size_t level = 0;
  std::uint64_t below = nothing;  // bits of the present word that count: up to `at`, with it at level 0 only
  for (; level < depth_; ++level) {
    below = level == 0 ? (bit(at) << 1) - 1 : bit(at) - 1;
    below &= levels_[level][at >> 6];
    if (below != 0) break;
    at >>= 6;
  }
  if (level == depth_) return nothing;
  for (at = at & ~std::uint64_t{63};; below = levels_[level][at >> 6]) {
    at |= 63u - static_cast<unsigned>(__builtin_clzll(below));
    if (level-- == 0) return at;
    at <<= 6;
  }
}

}  // namespace gpumem::space
