// Whether requests and frees that no magazine serves wait for the pool's mutex all the time. A wait counts
// three, whoever finds the mutex free takes one off: where fewer than one in four waits it never gets there.
// Part of a suballocator, under its mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace gpumem::resource {

class contention {
 public:
  void found_free() noexcept {
    if (score_ != 0) [[unlikely]]
      --score_;
  }
  void waited() noexcept {
    score_ = std::min(score_ + 3, 2 * much);
    lately_ = true;
  }
  bool is_high() const noexcept { return score_ >= much; }
  // Anybody since the last question.
  bool waited_lately() noexcept { return std::exchange(lately_, false); }

 private:
  static constexpr std::uint32_t much = 512;

  std::uint32_t score_ = 0;
  bool lately_ = false;
};

}  // namespace gpumem::resource
