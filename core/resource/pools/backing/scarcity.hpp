// Whether a pool's memory is scarce, so that each large block lies in a segment by itself, as natively it
// does: a segment of which a small part is in use serves no large request and cannot go back, and a program
// that natively fits would be refused. So from half of all memory on that it had in use lately; not where
// requests are refused all the time, as then the bytes that come and go are what takes time. Part of a
// suballocator, under its mutex. Makes no call.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumem::resource {

class scarcity {
 public:
  // With so many bytes in use, the request's among them.
  bool is_there(std::uint64_t in_use) const noexcept {
    return std::max(most_in_use_, in_use) > half_ && refusals_ < often;
  }
  // False: it is not, with so many bytes reserved; cheaper.
  bool may_be_there(std::uint64_t reserved) const noexcept { return reserved > half_; }
  // Units of an empty segment that may stay idle beside a block of `units`: the fuller, the less.
  std::uint32_t left_over(std::uint32_t units, std::uint64_t in_use) const noexcept {
    std::uint64_t const all = 2 * half_, room = all - std::min(all, std::max(most_in_use_, in_use));
    return static_cast<std::uint32_t>(static_cast<double>(units) * static_cast<double>(room) /
                                      static_cast<double>(2 * all));
  }

  // After a growth; `all`: bytes that the pool can have at most. What a program needed once it does not need
  // for ever.
  void note_growth(std::uint64_t in_use, std::uint64_t all) noexcept {
    half_ = all / 2;
    most_in_use_ = in_use > most_in_use_ ? in_use : most_in_use_ - (most_in_use_ - in_use) / 256;
    if (refusals_ != 0) --refusals_;
  }
  // A request was refused, with all that could go back.
  void note_refusal() noexcept { refusals_ = std::min(refusals_ + 8, 2 * often); }

 private:
  static constexpr std::uint32_t often = 32;  // more than one for eight growths, for a while

  std::uint64_t half_ = ~std::uint64_t{0};  // of all there is; no growth was noted yet
  std::uint64_t most_in_use_ = 0;           // lately
  std::uint32_t refusals_ = 0;
};

}  // namespace gpumem::resource
