// Byte counts to and from text, the same way in configuration, messages and reports. Any thread; pure
// functions. No heap, floating point or locale: a report is written at exit, and a size that was read as
// "70 GiB" has to be exactly 70 * 2^30.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumem::base {

inline constexpr std::uint64_t kib = std::uint64_t{1} << 10;
inline constexpr std::uint64_t mib = std::uint64_t{1} << 20;
inline constexpr std::uint64_t gib = std::uint64_t{1} << 30;

enum class size_error : std::uint8_t {
  none,
  empty,
  negative,
  not_a_number,  // does not begin with digits
  bare_prefix,   // "70 G": binary or decimal? Both readings are in the result
  unknown_unit,
  fraction,  // "0.1 KiB" is no whole number of bytes
  overflow,  // 2^64 bytes or more
};

struct parsed_size {
  size_error error = size_error::none;
  std::uint64_t bytes = 0;          // the value; for bare_prefix the binary reading, 0 where that overflows
  std::uint64_t decimal_bytes = 0;  // for bare_prefix: the decimal reading, 0 where that overflows
};

// "1024", "512 MiB", "1.5GiB", "70 GB", "7 bytes". Binary units KiB to EiB, decimal ones kB (KB) to EB.
parsed_size parse_bytes(std::string_view text) noexcept;

// A short text by value; converts to a view that lives as long as the object.
class short_text {
 public:
  void append(char c) noexcept {
    if (size_ < chars_.size()) chars_[size_++] = c;
  }
  void append(std::string_view text) noexcept {
    for (char c : text) append(c);
  }
  std::string_view view() const noexcept { return {chars_.data(), size_}; }
  operator std::string_view() const noexcept { return view(); }

 private:
  std::array<char, 40> chars_{};
  std::size_t size_ = 0;
};

// "1,204,880": a count.
short_text print_count(std::uint64_t count) noexcept;
// "75,161,927,680 B": all digits.
short_text print_all_bytes(std::uint64_t bytes) noexcept;
// "61.24 GiB", "512 B": for people, rounded to two decimals.
short_text print_bytes(std::uint64_t bytes) noexcept;
// "256 KiB" where that is exact, else "1,025 B": for messages that name a value the reader wrote.
short_text print_exact_bytes(std::uint64_t bytes) noexcept;

// Of ASCII, in every locale.
constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

}  // namespace gpumem::base
