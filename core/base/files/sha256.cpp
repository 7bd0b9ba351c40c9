// SHA-256 as FIPS 180-4 defines it. The constants are computed by their definition (fractions of the square
// and cube roots of the first primes), in integers, so that no table can have a typing error.
#include "core/base/files/sha256.hpp"

#include <array>
#include <bit>
#include <cstdint>

namespace gpumem::base {
namespace {

// The first 32 bits of the fraction of the root of n: the largest r with r^degree <= n * 2^(32 * degree), low
// word.
constexpr std::uint32_t root_fraction(std::uint64_t n, int degree) {
  std::uint64_t root = 0;
  for (int bit = 36; bit >= 0; --bit) {
    __extension__ using wide = unsigned __int128;
    std::uint64_t const trial = root | (std::uint64_t{1} << bit);
    // degree 2: trial^2 <= n << 64; degree 3: trial^3 <= n << 96. Both fit in 128 bits (trial < 2^37).
    wide power = static_cast<wide>(trial) * trial;
    if (degree == 3) power *= trial;
    if (power <= static_cast<wide>(n) << (32 * degree)) root = trial;
  }
  return static_cast<std::uint32_t>(root);
}

struct constants {
  std::array<std::uint32_t, 8> start{};
  std::array<std::uint32_t, 64> round{};
};

constexpr constants make_constants() {
  constants made;
  std::size_t found = 0;
  for (std::uint64_t n = 2; found < 64; ++n) {
    bool prime = true;
    for (std::uint64_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
    if (!prime) continue;
    if (found < 8) made.start[found] = root_fraction(n, 2);
    made.round[found++] = root_fraction(n, 3);
  }
  return made;
}
constexpr constants table = make_constants();

void mix(std::array<std::uint32_t, 8>& state, unsigned char const* block) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = static_cast<std::uint32_t>(block[4 * i]) << 24 |
           static_cast<std::uint32_t>(block[4 * i + 1]) << 16 |
           static_cast<std::uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    std::uint32_t const s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    std::uint32_t const s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    std::uint32_t const s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    std::uint32_t const t1 = h + s1 + ((e & f) ^ (~e & g)) + table.round[static_cast<std::size_t>(i)] + w[i];
    std::uint32_t const s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    std::uint32_t const t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  std::uint32_t const add[8] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += add[i];
}

}  // namespace

std::string sha256(std::string_view text) {
  std::string padded(text);
  padded += static_cast<char>(0x80);
  while (padded.size() % 64 != 56) padded += '\0';
  std::uint64_t const bits = std::uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift & 0xff);

  std::array<std::uint32_t, 8> state = table.start;
  for (std::size_t at = 0; at < padded.size(); at += 64) {
    mix(state, reinterpret_cast<unsigned char const*>(padded.data()) + at);
  }
  std::string digits;
  for (std::uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 0xf];
  }
  return digits;
}

}  // namespace gpumem::base
