// Row pitch of cuMemAllocPitch. The driver decides it: the first request of a shape goes there, and its
// answer holds for all others of that shape, which chains may then serve. Any thread, no lock: a shape is
// written once. A shape that finds no place in the table stays the driver's.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gpumem::route {

// What the driver may go by: the device, the width, the element, and the height by its power of two.
struct pitched_shape {
  int device = 0;
  std::uint64_t width = 0;
  std::uint64_t height = 0;
  unsigned element = 0;

  // 0: a shape that the driver refuses, or that nobody has.
  constexpr std::uint64_t key() const noexcept {
    bool const element_is_known = element == 4 || element == 8 || element == 16;
    if (!element_is_known || width == 0 || width >> 48 != 0 || height == 0 || device < 0 || device > 63)
      return 0;
    auto const element_step = static_cast<std::uint64_t>(std::countr_zero(element) - 1);  // 1, 2, 3
    return width << 16 | static_cast<std::uint64_t>(std::bit_width(height)) << 8 |
           static_cast<std::uint64_t>(device) << 2 | element_step;
  }
};

class pitches {
 public:
  // Bytes from one row to the next; 0: not known.
  std::uint64_t find(pitched_shape const& shape) const noexcept {
    std::uint64_t const key = shape.key();
    for (std::size_t step = 0; step < looks && key != 0; ++step) {
      line const& here = lines_[(first_of(key) + step) % lines_.size()];
      std::uint64_t const found = here.key.load(std::memory_order_acquire);
      if (found == key) return here.pitch.load(std::memory_order_acquire);
      if (found == 0) return 0;
    }
    return 0;
  }

  void learn(pitched_shape const& shape, std::uint64_t pitch) noexcept {
    std::uint64_t const key = shape.key();
    for (std::size_t step = 0; step < looks && key != 0; ++step) {
      line& here = lines_[(first_of(key) + step) % lines_.size()];
      std::uint64_t found = 0;
      if (!here.key.compare_exchange_strong(found, key) && found != key) continue;
      here.pitch.store(pitch, std::memory_order_release);
      return;
    }
  }

 private:
  static constexpr std::size_t looks = 8;
  // One shape with its pitch.
  struct line {
    std::atomic<std::uint64_t> key{0};  // 0: nobody's
    std::atomic<std::uint64_t> pitch{0};
  };
  static constexpr std::size_t first_of(std::uint64_t key) noexcept {
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15ull >> 54);
  }

  std::array<line, 1024> lines_{};
};

}  // namespace gpumem::route
