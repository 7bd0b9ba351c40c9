// See duration_text.hpp. No locale: a decimal point is a point everywhere.
#include "config/text/duration_text.hpp"

#include "config/text/diagnostic.hpp"

namespace gpumem::config {

namespace {

constexpr std::uint64_t millisecond = 1'000'000;
constexpr std::uint64_t hour = 3600 * 1000 * millisecond;

std::uint64_t unit_of(std::string_view name) noexcept {
  if (name == "ms") return millisecond;
  if (name == "s") return 1000 * millisecond;
  if (name == "min") return 60 * 1000 * millisecond;
  return 0;
}

}  // namespace

duration_reading read_duration(std::string_view text) {
  auto const fail = [&](std::string const& why, std::string remedy) {
    return duration_reading{std::nullopt, quoted(text) + why, std::move(remedy)};
  };
  std::string const example = "write \"1 s\", \"250 ms\" or \"2 min\"";
  auto const begin = text.find_first_not_of("0123456789.");
  std::string_view const number = text.substr(0, begin);
  std::string_view unit = begin == text.npos ? std::string_view() : text.substr(begin);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (text.starts_with('-')) return fail(" is negative", example);
  if (number.empty() || number.size() > 12 || number.front() == '.' || number.back() == '.')
    return fail(" is not a duration", example);
  if (unit.empty()) return fail(" has no unit", "units are ms, s and min");
  std::uint64_t const factor = unit_of(unit);
  if (factor == 0) return fail(" is not a duration", "units are ms, s and min");
  std::uint64_t whole = 0, part = 0, scale = 1;
  bool behind_point = false;
  for (char c : number) {
    if (c == '.') {
      if (behind_point) return fail(" is not a duration", example);
      behind_point = true;
      continue;
    }
    auto const digit = static_cast<std::uint64_t>(c - '0');
    if (!behind_point) whole = whole * 10 + digit;
    if (behind_point && scale < millisecond) part = part * 10 + digit, scale *= 10;
  }
  bool const too_long = whole > hour / factor;
  std::uint64_t const value =
      too_long ? 0 : whole * factor + part * (factor / millisecond) * (millisecond / scale);
  if (too_long || value < millisecond || value > hour)
    return fail(" is out of range", "it is 1 ms to 60 min");
  return {value, {}, {}};
}

}  // namespace gpumem::config
