// See line_table.hpp.
#include "core/stats/callers/python/line_table.hpp"

#include <algorithm>

namespace gpumem::stats::python {
namespace {

class byte_source {
 public:
  byte_source(base::own_memory_pieces& memory, line_table const& table) noexcept
      : memory_(memory),
        from_(static_cast<char const*>(table.bytes)),
        left_(std::min<std::size_t>(table.size, 1 << 20)) {}

  bool is_at_end() noexcept { return next_ == held_ && !refill(); }
  unsigned peek() noexcept { return is_at_end() ? 0 : piece_[next_]; }
  unsigned take() noexcept { return is_at_end() ? 0 : piece_[next_++]; }

 private:
  bool refill() noexcept {
    std::size_t const wanted = std::min(left_, sizeof piece_);
    next_ = 0;
    held_ = wanted != 0 && memory_.read(from_, piece_, wanted) ? wanted : 0;
    from_ += held_;
    left_ = held_ == 0 ? 0 : left_ - held_;
    return held_ != 0;
  }

  base::own_memory_pieces& memory_;
  char const* from_;
  std::size_t left_;
  unsigned char piece_[512] = {};
  std::size_t next_ = 0, held_ = 0;
};

std::int64_t as_signed(unsigned byte) noexcept {
  return byte < 128 ? static_cast<std::int64_t>(byte) : static_cast<std::int64_t>(byte) - 256;
}

std::uint32_t line_or_none(std::int64_t line) noexcept {
  return line > 0 && line < 1 << 30 ? static_cast<std::uint32_t>(line) : 0;
}

// Pairs of an increment of the address and one of the line, which holds behind that address.
std::uint32_t by_increments(byte_source& table, std::int64_t line, std::uint64_t instruction) noexcept {
  std::uint64_t address = 0;
  while (!table.is_at_end()) {
    address += table.take();
    std::int64_t const step = as_signed(table.take());
    if (address > instruction) break;
    line += step;
  }
  return line_or_none(line);
}

// Pairs of a length and an increment of the line, which holds for that length; -128: no line.
std::uint32_t by_ranges(byte_source& table, std::int64_t line, std::uint64_t instruction) noexcept {
  constexpr std::int64_t no_line = -128;
  std::uint64_t end = 0;
  while (!table.is_at_end()) {
    end += table.take();
    std::int64_t const step = as_signed(table.take());
    if (step != no_line) line += step;
    if (instruction < end) return step == no_line ? 0 : line_or_none(line);
  }
  return 0;
}

std::uint64_t variable_length(byte_source& table) noexcept {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 60; shift += 6) {
    unsigned const part = table.take();
    value |= std::uint64_t{part & 63} << shift;
    if ((part & 64) == 0) break;
  }
  return value;
}

std::int64_t signed_variable_length(byte_source& table) noexcept {
  std::uint64_t const value = variable_length(table);
  auto const magnitude = static_cast<std::int64_t>(value >> 1);
  return (value & 1) != 0 ? -magnitude : magnitude;
}

// Entries, each of which begins with a byte above 127: its kind, and its length in instructions of two bytes.
std::uint32_t by_locations(byte_source& table, std::int64_t line, std::uint64_t instruction) noexcept {
  enum : unsigned { one_line_0 = 10, one_line_2 = 12, no_columns = 13, long_form = 14, no_location = 15 };
  std::uint64_t end = 0;
  while (!table.is_at_end()) {
    unsigned const first = table.take();
    if (first < 128) return 0;
    unsigned const kind = first >> 3 & 15;
    end += 2 * ((first & 7) + 1);
    if (kind == no_columns || kind == long_form) line += signed_variable_length(table);
    if (kind >= one_line_0 && kind <= one_line_2) line += kind - one_line_0;
    if (instruction < end) return kind == no_location ? 0 : line_or_none(line);
    while (!table.is_at_end() && table.peek() < 128) table.take();
  }
  return 0;
}

}  // namespace

std::uint32_t line_in(base::own_memory_pieces& memory, line_table const& table, std::uint32_t first_line,
                      std::uint64_t instruction) noexcept {
  byte_source source(memory, table);
  std::int64_t const line = first_line;
  switch (table.format) {
    case lines_of::line_increments:
      return by_increments(source, line, instruction);
    case lines_of::line_ranges:
      return by_ranges(source, line, instruction);
    case lines_of::locations:
      return by_locations(source, line, instruction);
  }
  return 0;
}

}  // namespace gpumem::stats::python
