// How the text report prints values and reads them out of a document. A document may come from a file that
// someone edited: a missing or wrong-typed field reads as unknown, it never throws. Used by text.cpp and
// text_sections.cpp; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/text/printable.hpp"
#include "core/report/document_options.hpp"

namespace gpumem::report {

inline constexpr std::size_t page_width = 96;

document const& field(document const& from, std::string_view name);  // null when absent
// Nothing, or 0: absent, null, or no whole number that is at least 0.
std::optional<std::uint64_t> number(document const& from, std::string_view name);
std::uint64_t number_or_zero(document const& from, std::string_view name);
std::string words(document const& from, std::string_view name);  // "" when absent or no string

std::string library_name(document const& holder);  // the file of its "path", without folders

std::string bytes_text(std::uint64_t bytes);                            // "61.24 GiB"
std::string count_text(std::uint64_t count);                            // "1,204,880"
std::string percent_text(std::uint64_t part, std::uint64_t whole);      // "99.98 %"; "-" of nothing
std::string duration_text(std::uint64_t ns, bool milliseconds = true);  // "12:41.308"
std::string left(std::string_view text, std::size_t width);             // padded; cut with ".." when longer
std::string right(std::string_view text, std::size_t width);            // at least one blank before it
using base::printable;  // names come from the program, and must not steer a terminal

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
