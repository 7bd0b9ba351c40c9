// Whether a pool takes the same memory from the driver again and again, in other pieces, and how much more a
// growth then takes. That is so where memory is short and large blocks of ever other sizes come and go: for
// each the driver gets segments back and cuts a new one from them. It needs as long as there are bytes.
// Segments that go come back as one, and a remainder that is smaller than the request serves more requests as
// a part of that segment. Part of a segment_backing, under the pool's mutex. Makes no call.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumem::resource {

class regrowth {
 public:
  // A growth by `bytes` to `reserved` in all; `is_short`: it found little memory left.
  void note(std::uint64_t bytes, std::uint64_t reserved, bool is_short) noexcept {
    std::uint64_t const never_had = reserved - std::min(reserved, most_);
    regrown_ = is_short ? regrown_ + bytes - std::min(bytes, never_had) : 0;
    most_ = std::max(most_, reserved);
  }

  // As much as an eighth of what it ever had was taken anew since memory is short.
  bool is_usual() const noexcept { return regrown_ >= most_ / 8 && most_ != 0; }

  // Bytes of empty segments that go for a request of `bytes`, of a pool of `reserved`, if as much comes back
  // as one segment: so many that there are fewer each time. Only of what is a good part of the pool: other
  // blocks would lie in the way of it.
  static constexpr std::uint64_t to_join(std::uint64_t bytes, std::uint64_t reserved) noexcept {
    return bytes < std::max(large, reserved / 64) ? bytes : 2 * bytes;
  }

  // What to take for a request of `bytes`, where the driver has `free`: all of it but little, if the
  // remainder could not serve a second one.
  std::uint64_t with_remainder(std::uint64_t bytes, std::uint64_t free) const noexcept {
    std::uint64_t const kept = std::max(most_ / 1024, least_kept);
    if (bytes < large || free < kept || free - kept < bytes || free - kept - bytes >= bytes) return bytes;
    return (free - kept) / page * page;
  }

 private:
  static constexpr std::uint64_t large = 64ull << 20;  // for less the number of calls counts, not the bytes
  static constexpr std::uint64_t least_kept = 16ull << 20;  // it calls a little free that nobody can have
  static constexpr std::uint64_t page = 2ull << 20;

  std::uint64_t most_ = 0;
  std::uint64_t regrown_ = 0;
};

}  // namespace gpumem::resource
