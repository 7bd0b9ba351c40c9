// See text_format.hpp.
#include "core/report/output/text_format.hpp"

#include <algorithm>

#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"

namespace gpumem::report {

std::string bytes_text(std::uint64_t bytes) {
  return std::string(base::print_bytes(bytes).view());
}
std::string count_text(std::uint64_t count) {
  return std::string(base::print_count(count).view());
}

std::string percent_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  double const percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  // 99.997 % must not be printed as 100 %: whether a cache ever missed is what the reader wants to know.
  if (part < whole && percent > 99.99) return "99.99 %";
  return base::format("{:.{}f} %", percent, percent >= 99.95 && part < whole ? 2 : 1);
}

std::string duration_text(std::uint64_t ns, bool milliseconds) {
  std::uint64_t const ms = ns / 1'000'000, seconds = ms / 1000, minutes = seconds / 60, hours = minutes / 60;
  std::string text = hours != 0 ? base::format("{}:{:02}:{:02}", hours, minutes % 60, seconds % 60)
                                : base::format("{}:{:02}", minutes, seconds % 60);
  return milliseconds ? text + base::format(".{:03}", ms % 1000) : text;
}

std::string left(std::string_view text, std::size_t width) {
  if (text.size() > width) {
    std::size_t cut = width - 2;
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;  // no character in half
    text = text.substr(0, cut);
    return std::string(text) + ".." + std::string(width - 2 - cut, ' ');
  }
  return std::string(text) + std::string(width - text.size(), ' ');
}

std::string right(std::string_view text, std::size_t width) {
  // What is wider than its column moves the line, and never touches what stands before it.
  std::size_t const before = text.size() < width ? width - text.size() : 1;
  return std::string(before, ' ') + std::string(text);
}

std::string_view when_written(document const& from) {
  std::string const kind = words(field(from, "end"), "kind");
  return kind == "running" ? "now" : kind == "exit" ? "at exit" : "at the end";
}

ledger_column::ledger_column(std::uint64_t largest) noexcept
    : unit_(largest >= base::gib   ? base::gib
            : largest >= base::mib ? base::mib
            : largest >= base::kib ? base::kib
                                   : 1),
      name_(unit_ == base::gib   ? "GiB"
            : unit_ == base::mib ? "MiB"
            : unit_ == base::kib ? "KiB"
                                 : "B") {}

std::uint64_t ledger_column::hundredths(std::uint64_t bytes) const noexcept {
  return bytes / unit_ * 100 + (bytes % unit_ * 100 + unit_ / 2) / unit_;
}

std::string ledger_column::print(std::uint64_t value) const {
  if (unit_ == 1) return count_text(value / 100) + " B";
  return base::format("{}.{:02} {}", count_text(value / 100), value % 100, name_);
}

std::string ledger_column::row(std::uint64_t bytes) {
  std::uint64_t const before = hundredths(so_far_);
  so_far_ += bytes;
  return print(hundredths(so_far_) - before);
}

std::string ledger_column::less(std::uint64_t bytes) {
  std::uint64_t const before = hundredths(so_far_);
  so_far_ -= std::min(bytes, so_far_);
  return print(before - hundredths(so_far_));
}

std::string ledger_column::sum() const {
  return print(hundredths(so_far_));
}

}  // namespace gpumem::report
