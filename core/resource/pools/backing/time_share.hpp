// A part of the time, and some milliseconds at first, for what a call of the program's does for the sake of
// later ones. Part of what a suballocator decides, under its mutex. Makes no call.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumem::resource {

class time_share {
 public:
  explicit constexpr time_share(std::uint64_t part) noexcept : part_(part) {}
  // Nanoseconds that are left at this time.
  std::uint64_t left(std::uint64_t now) noexcept {
    if (first_ == 0) first_ = now;
    std::uint64_t const all = at_first + (now - first_) / part_;
    return all - std::min(all, spent_);
  }
  void spent(std::uint64_t ns) noexcept { spent_ += ns; }

 private:
  static constexpr std::uint64_t at_first = 20'000'000;

  std::uint64_t const part_;
  std::uint64_t first_ = 0, spent_ = 0;
};

}  // namespace gpumem::resource
