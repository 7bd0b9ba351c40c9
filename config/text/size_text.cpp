// Sizes of the configuration; see size_text.hpp. Each way to get one wrong has its own remedy. Pure, one
// thread, no locale: a decimal point is a point everywhere.
#include "config/text/size_text.hpp"

#include "config/text/diagnostic.hpp"
#include "core/base/text/bytes.hpp"

namespace gpumem::config {
namespace {

constexpr int percent_decimals = 4;

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

size_reading fail(char const* code, std::string problem, std::string remedy) {
  return {std::nullopt, code, std::move(problem), std::move(remedy)};
}

// Digits with at most four decimals; nothing else.
std::optional<double> read_percent(std::string_view text) noexcept {
  double value = 0;
  double scale = 1;
  int decimals = -1;
  if (text.empty() || text.size() > 12 || text.front() == '.' || text.back() == '.') return std::nullopt;
  for (char c : text) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
    } else if (c >= '0' && c <= '9' && decimals < percent_decimals) {
      value = value * 10 + (c - '0');
      if (decimals >= 0) {
        ++decimals;
        scale *= 10;
      }
    } else {
      return std::nullopt;
    }
  }
  return value / scale;
}

size_reading read_share(std::string_view text, std::string_view number, std::string_view of, bool allowed) {
  std::string const share = std::string(trim(number)) + " % of ";
  std::string const both = "write \"" + share + "free\" or \"" + share + "total\"";
  auto const percent = read_percent(trim(number));
  if (number.starts_with('-')) return fail("E207", quoted(text) + " is negative", "a percentage is 0 to 100");
  if (!percent) {
    return fail("E210", quoted(text) + " is not a size",
                "write a percentage as \"50 % of free\" or \"12.5 % of total\"");
  }
  if (!allowed) return fail("E210", "a percentage is not possible here", "write bytes, such as \"256 KiB\"");
  if (*percent > 100) return fail("E207", quoted(text) + " is more than 100 %", "a percentage is 0 to 100");
  size_value value;
  value.percent = *percent;
  if (of == "of free") {
    value.kind = size_value::unit::percent_of_free;
  } else if (of == "of total") {
    value.kind = size_value::unit::percent_of_total;
  } else if (of.empty()) {
    return fail("E210", quoted(text) + " does not say of what", both);
  } else {
    return fail("E210", quoted(text) + " is not a size", both);
  }
  return {value, "", {}, {}};
}

// "70 gib" -> "GiB"
std::string_view respelt_unit(std::string_view text) noexcept {
  constexpr std::string_view units[] = {"KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"};
  auto const begin = text.find_first_not_of("0123456789. ");
  if (begin == text.npos) return {};
  auto const unit = text.substr(begin);
  for (auto known : units) {
    bool same = unit.size() == known.size();
    for (std::size_t i = 0; same && i < unit.size(); ++i) same = (unit[i] | 0x20) == (known[i] | 0x20);
    if (same) return known;
  }
  return {};
}

std::string with_unit(std::string_view text, std::string_view unit) {
  auto const end = text.find_first_not_of("0123456789. ");
  return std::string(trim(text.substr(0, end))) + " " + std::string(unit);
}

std::string both_readings(std::string_view text, base::parsed_size const& size) {
  auto const begin = text.find_first_not_of("0123456789. ");
  std::string const prefix(1, text[begin] == 'k' ? 'K' : text[begin]);
  std::string result;
  auto const offer = [&](std::string const& unit, std::uint64_t bytes) {
    if (bytes == 0) return;
    result += result.empty() ? "write " : " or ";
    result +=
        "\"" + with_unit(text, unit) + "\" (" + std::string(base::print_count(bytes).view()) + " bytes)";
  };
  offer(prefix + "iB", size.bytes);
  offer(prefix + "B", size.decimal_bytes);
  return result;
}

size_reading read_bytes(std::string_view text) {
  base::parsed_size const size = base::parse_bytes(text);
  std::string const no_size = quoted(text) + " is not a size";
  switch (size.error) {
    case base::size_error::none: {
      size_value value;
      value.bytes = size.bytes;
      return {value, "", {}, {}};
    }
    case base::size_error::empty:
      return fail("E210", "a size is missing", "write bytes, such as \"256 KiB\"");
    case base::size_error::negative:
      return fail("E210", quoted(text) + " is negative", "a size is 0 or more");
    case base::size_error::bare_prefix:
      return fail("E210", no_size, both_readings(text, size));
    case base::size_error::fraction:
      return fail("E210", quoted(text) + " is no whole number of bytes", "use a smaller unit");
    case base::size_error::overflow:
      return fail("E210", quoted(text) + " is too large", "the limit is 2^64 - 1 bytes, just under 16 EiB");
    case base::size_error::not_a_number:
      return fail("E210", no_size, "write \"512 MiB\"");
    case base::size_error::unknown_unit:
      break;
  }
  auto const unit = respelt_unit(text);
  if (!unit.empty()) return fail("E210", no_size, "units are spelled so: \"" + with_unit(text, unit) + "\"");
  return fail("E210", no_size, "units are B, KiB, MiB, GiB, TiB and kB, MB, GB, TB");
}

}  // namespace

size_reading read_size(std::string_view text, bool percent_allowed) {
  text = trim(text);
  auto const percent = text.find('%');
  if (percent == text.npos) return read_bytes(text);
  return read_share(text, text.substr(0, percent), trim(text.substr(percent + 1)), percent_allowed);
}

std::string write_size(size_value const& size) {
  if (size.kind == size_value::unit::bytes) {
    if (size.bytes == 0 || size.bytes % 1024 != 0) return std::to_string(size.bytes) + " B";
    std::string text(base::print_exact_bytes(size.bytes).view());
    std::erase(text, ',');
    return text;
  }
  auto const parts = static_cast<long long>(size.percent * 10'000 + 0.5);
  std::string text = std::to_string(parts / 10'000);
  if (parts % 10'000 != 0) {
    std::string decimals = std::to_string(10'000 + parts % 10'000).substr(1);
    decimals.erase(decimals.find_last_not_of('0') + 1);
    text += "." + decimals;
  }
  return text + (size.kind == size_value::unit::percent_of_free ? " % of free" : " % of total");
}

}  // namespace gpumem::config
