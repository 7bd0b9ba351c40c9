// A vector clock: for each stream, how many of its operations are known to have happened. Used by the machine
// for streams, events and the host, always under the machine's lock. Slots are small integers handed out by
// the machine; a slot that a clock never heard of counts as zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simulated {

class vector_clock {
 public:
  bool covers(std::size_t slot, std::uint64_t tick) const noexcept {
    return slot < ticks_.size() && ticks_[slot] >= tick;
  }

  void join(vector_clock const& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }

  void set(std::size_t slot, std::uint64_t tick) {
    if (slot >= ticks_.size()) ticks_.resize(slot + 1);
    ticks_[slot] = std::max(ticks_[slot], tick);
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

}  // namespace simulated
