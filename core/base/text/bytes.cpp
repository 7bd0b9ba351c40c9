// Sizes to and from text; see bytes.hpp. Called from the config reader and the report writers, on any thread.
// Arithmetic is in 128-bit integers, so no input overflows it unseen. Must never use the heap or the locale.
#include "core/base/text/bytes.hpp"

namespace gpumem::base {
namespace {

using wide = unsigned __int128;

constexpr wide limit = static_cast<wide>(1) << 64;
constexpr std::string_view prefixes = "KMGTPE";

constexpr bool is_space(char c) noexcept {
  return c == ' ' || c == '\t';
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// A decimal number as digits * 10^-decimals, both small enough that a multiplication by a unit stays in 128
// bits.
struct number {
  wide digits = 0;
  unsigned decimals = 0;
  bool overflow = false;
};

number take_number(std::string_view& text) noexcept {
  number result;
  bool point = false;
  while (!text.empty() && (is_digit(text.front()) || (!point && text.front() == '.'))) {
    if (text.front() == '.') {
      point = true;
    } else if (result.digits >= limit || result.decimals >= 18) {
      result.overflow = true;
    } else {
      result.digits = result.digits * 10 + static_cast<unsigned>(text.front() - '0');
      result.decimals += point ? 1U : 0U;
    }
    text.remove_prefix(1);
  }
  return result;
}

struct unit {
  bool known = false;
  bool bare = false;  // a prefix alone
  bool binary = false;
  unsigned power = 0;
};

unit find_unit(std::string_view text) noexcept {
  if (text.empty() || text == "B" || text == "byte" || text == "bytes") return {true, false, true, 0};
  char const first = text.front() == 'k' ? 'K' : text.front();
  auto const index = prefixes.find(first);
  if (index == std::string_view::npos) return {};
  auto const power = static_cast<unsigned>(index) + 1;
  auto const rest = text.substr(1);
  if (rest.empty() || rest == "i") return {true, true, true, power};
  if (rest == "B") return {true, false, false, power};
  // "kiB" is not a unit of any standard, but no one can mean anything else by it.
  if (rest == "iB") return {true, false, true, power};
  return {};
}

wide scale_of(bool binary, unsigned power) noexcept {
  wide scale = 1;
  for (unsigned i = 0; i < power; ++i) scale *= binary ? 1024U : 1000U;
  return scale;
}

size_error scale_number(number value, bool binary, unsigned power, std::uint64_t& result) noexcept {
  wide bytes = value.digits;
  wide const scale = scale_of(binary, power);
  if (bytes != 0 && scale > ~static_cast<wide>(0) / bytes) return size_error::overflow;
  bytes *= scale;
  for (unsigned i = 0; i < value.decimals; ++i) {
    if (bytes % 10 != 0) return size_error::fraction;
    bytes /= 10;
  }
  if (bytes >= limit) return size_error::overflow;
  result = static_cast<std::uint64_t>(bytes);
  return size_error::none;
}

}  // namespace

parsed_size parse_bytes(std::string_view text) noexcept {
  text = trim(text);
  if (text.empty()) return {size_error::empty};
  if (text.front() == '-') return {size_error::negative};
  if (!is_digit(text.front())) return {size_error::not_a_number};

  number const value = take_number(text);
  unit const u = find_unit(trim(text));
  if (!u.known) return {size_error::unknown_unit};
  if (value.overflow) return {value.decimals >= 18 ? size_error::fraction : size_error::overflow};

  parsed_size result;
  result.error = scale_number(value, u.binary, u.power, result.bytes);
  if (u.bare) {
    result.error = size_error::bare_prefix;
    static_cast<void>(scale_number(value, false, u.power, result.decimal_bytes));
  }
  return result;
}

short_text print_count(std::uint64_t count) noexcept {
  std::array<char, 20> digits{};
  std::size_t size = 0;
  do {
    digits[size++] = static_cast<char>('0' + count % 10);
    count /= 10;
  } while (count != 0);
  short_text result;
  while (size != 0) {
    result.append(digits[--size]);
    if (size != 0 && size % 3 == 0) result.append(',');
  }
  return result;
}

short_text print_all_bytes(std::uint64_t bytes) noexcept {
  short_text result = print_count(bytes);
  result.append(" B");
  return result;
}

short_text print_bytes(std::uint64_t bytes) noexcept {
  if (bytes < kib) return print_all_bytes(bytes);
  unsigned power = 1;
  wide hundredths = 0;
  // The next unit starts where rounding would print 1024.00 of this one.
  for (;; ++power) {
    wide const scale = scale_of(true, power);
    hundredths = (static_cast<wide>(bytes) * 100 + scale / 2) / scale;
    if (hundredths < 102400 || power == prefixes.size()) break;
  }
  short_text result = print_count(static_cast<std::uint64_t>(hundredths / 100));
  result.append('.');
  result.append(static_cast<char>('0' + static_cast<unsigned>(hundredths / 10 % 10)));
  result.append(static_cast<char>('0' + static_cast<unsigned>(hundredths % 10)));
  result.append(' ');
  result.append(prefixes[power - 1]);
  result.append("iB");
  return result;
}

short_text print_exact_bytes(std::uint64_t bytes) noexcept {
  if (bytes == 0) return print_all_bytes(bytes);
  unsigned power = 0;
  while (power < prefixes.size() && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  if (power == 0) return print_all_bytes(bytes);
  short_text result = print_count(bytes);
  result.append(' ');
  result.append(prefixes[power - 1]);
  result.append("iB");
  return result;
}

}  // namespace gpumem::base
