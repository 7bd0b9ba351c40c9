// Whether requests and frees that no magazine serves wait for the pool's mutex all the time. A wait counts
// three, whoever finds the mutex free takes one off: where fewer than one in four waits it never gets there.
// Part of a suballocator, under its mutex.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumem::resource {

class contention {
 public:
  void found_free() noexcept {
    if (score_ != 0) [[unlikely]]
      --score_;
  }
  void waited() noexcept { score_ = std::min(score_ + 3, 2 * much); }
  bool is_high() const noexcept { return score_ >= much; }

 private:
  static constexpr std::uint32_t much = 512;

  std::uint32_t score_ = 0;
};

}  // namespace gpumem::resource
