// How the text report prints values. Used by text.cpp and its sections, and by the program gpumem; pure, and
// never throws but for lack of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/report/fields.hpp"

namespace gpumem::report {

inline constexpr std::size_t page_width = 96;

std::string bytes_text(std::uint64_t bytes);                            // "61.24 GiB"
std::string count_text(std::uint64_t count);                            // "1,204,880"
std::string percent_text(std::uint64_t part, std::uint64_t whole);      // "99.98 %"; "-" of nothing
std::string duration_text(std::uint64_t ns, bool milliseconds = true);  // "12:41.308"
std::string left(std::string_view text, std::size_t width);             // padded; cut with ".." when longer
std::string right(std::string_view text, std::size_t width);            // at least one blank before it
// Above the figures of the end: "now" of a live process, "at exit", or "at the end" of one that was killed.
std::string_view when_written(document const& from);

// The rows of a ledger in one unit, such that the printed figures add up as the bytes do: each row is the
// difference of two rounded running sums.
class ledger_column {
 public:
  explicit ledger_column(std::uint64_t largest) noexcept;
  std::string row(std::uint64_t bytes);   // adds to the running sum
  std::string less(std::uint64_t bytes);  // subtracts from it
  std::string sum() const;                // of all rows so far

 private:
  std::uint64_t hundredths(std::uint64_t bytes) const noexcept;
  std::string print(std::uint64_t hundredths) const;
  std::uint64_t unit_;
  std::string_view name_;
  std::uint64_t so_far_ = 0;
};

}  // namespace gpumem::report
