// The sizes that small blocks are cut to: sixteen in each doubling up to 1 MiB, so that a block serves
// later requests of nearly its size, at a cost of at most 1/16. Up to 8 KiB, and above 1 MiB, sizes are
// exact. Pure arithmetic; called for every request.
#pragma once

#include <bit>
#include <cstdint>

namespace gpumem::resource::size_classes {

inline constexpr std::uint32_t largest = 2048;  // units: 1 MiB
inline constexpr std::uint32_t count = 128;

namespace detail {
constexpr std::uint32_t doubling(std::uint32_t units) noexcept {  // of units in (2^n, 2^(n+1)]: n, from 4 on
  return static_cast<std::uint32_t>(std::bit_width(units - 1)) - 1;
}
}  // namespace detail

// The units of a block for a request of `units`, at least 1.
constexpr std::uint32_t round_up(std::uint32_t units) noexcept {
  if (units <= 16 || units > largest) return units;
  std::uint32_t const step = 1u << (detail::doubling(units) - 4);
  return (units + step - 1) & ~(step - 1);
}

// Below `count`: which class a block of at most `largest` units belongs to.
constexpr std::uint32_t index_of(std::uint32_t units) noexcept {
  if (units <= 16) return units - 1;
  std::uint32_t const n = detail::doubling(units);
  return 16 * (n - 3) + ((units - 1 - (1u << n)) >> (n - 4));
}

// Where threads share what they free sizes are coarser: four in each doubling, at most a quarter more.
constexpr std::uint32_t coarse_step(std::uint32_t units) noexcept {  // of 17 units and more
  return 1u << (detail::doubling(units) - 2);
}
constexpr bool is_coarse(std::uint32_t units) noexcept {
  return (units & (coarse_step(units) - 1)) == 0;
}

}  // namespace gpumem::resource::size_classes
