// The least that was idle over a while, in intervals: what stayed idle throughout, whichever addresses took
// turns in it, was needed by nobody. For memory by pages, where no segment is empty. Used under the
// suballocator's mutex. Makes no call.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace gpumem::resource {

class idle_floor {
 public:
  // So many bytes are idle after a request took some.
  void note(std::uint64_t idle) noexcept { low_ = std::min(low_, idle); }
  // An interval ends, with so many bytes idle. The least over all intervals; 0 until there were that many.
  std::uint64_t end_interval(std::uint64_t idle) noexcept {
    lows_[count_++ % lows_.size()] = std::min(low_, idle);
    low_ = idle;
    return count_ < lows_.size() ? 0 : *std::min_element(lows_.begin(), lows_.end());
  }

 private:
  std::uint64_t low_ = 0;
  std::array<std::uint64_t, 9> lows_{};  // eight intervals are release_after; the first was not seen whole
  std::uint64_t count_ = 0;
};

}  // namespace gpumem::resource
