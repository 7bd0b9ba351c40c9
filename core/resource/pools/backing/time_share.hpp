// A part of the time, some milliseconds at first, and what is earned, for what a call of the program's does
// for the sake of later ones. Part of what a suballocator decides, under its mutex. Makes no call.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumem::resource {

class time_share {
 public:
  constexpr time_share(std::uint64_t part, std::uint64_t at_first_ns) noexcept
      : part_(part), at_first_ns_(at_first_ns) {}
  // Nanoseconds that are left at this time.
  std::uint64_t left(std::uint64_t now) noexcept {
    if (first_ == 0) first_ = now;
    std::uint64_t const all = at_first_ns_ + (now - first_) / part_ + earned_;
    return all - std::min(all, spent_);
  }
  void earned(std::uint64_t ns) noexcept { earned_ += ns; }
  void spent(std::uint64_t ns) noexcept { spent_ += ns; }

 private:
  std::uint64_t const part_, at_first_ns_;
  std::uint64_t first_ = 0, earned_ = 0, spent_ = 0;
};

}  // namespace gpumem::resource
