// What frees give back to the source before a request needs it. At a pool's bound memory goes back before
// more is taken, which waits for the GPU; natively the free has waited, and no request does. What requests
// had to give back is wanted of the frees from then on that keep the GPU's pace, and as much is taken without
// giving back. What is wanted gets less with each time, so that a loop whose sizes come back keeps its memory
// in the end. Part of a backing, under the pool's mutex, but for is_wanted(). Makes no call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace gpumem::resource {

class given_ahead {
 public:
  // A request had to give so much back, and the GPU was behind; of a pool of so many bytes.
  void note_late(std::uint64_t bytes, std::uint64_t reserved) noexcept {
    room_ = 0;  // there was none
    wanted_.store(std::min(wanted_.load(std::memory_order_relaxed) + bytes, reserved),
                  std::memory_order_relaxed);
  }
  bool is_wanted() const noexcept { return wanted_.load(std::memory_order_relaxed) >= least; }
  // Bytes that frees are to give back now.
  std::uint64_t missing() const noexcept {
    std::uint64_t const wanted = wanted_.load(std::memory_order_relaxed);
    return is_wanted() ? wanted - std::min(wanted, room_) : 0;
  }
  // Frees gave so much back.
  void note_given(std::uint64_t bytes) noexcept {
    room_ += bytes;
    std::uint64_t const wanted = wanted_.load(std::memory_order_relaxed);
    wanted_.store(wanted - std::min(wanted, bytes / 8), std::memory_order_relaxed);
  }
  // A growth by so many bytes needs no more room than frees made.
  bool take_room(std::uint64_t bytes) noexcept {
    if (room_ < bytes) return false;
    room_ -= bytes;
    return true;
  }
  // Others have it, or the pool gave back for another reason.
  void drop_room() noexcept { room_ = 0; }

 private:
  static constexpr std::uint64_t least = 32ull << 20;  // what less could save is not worth it

  std::atomic<std::uint64_t> wanted_{0};
  std::uint64_t room_ = 0;
};

}  // namespace gpumem::resource
