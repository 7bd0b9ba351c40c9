// CATEGORIES: what code of each of the user's names holds of a device, in the text report; and at a refusal.
// Used by text.cpp and text_sections.cpp only; see text_sections.hpp.
#include <nlohmann/json.hpp>

#include "core/base/text/format.hpp"
#include "core/report/output/text_format.hpp"
#include "core/report/output/text_sections.hpp"

namespace gpumem::report {
namespace {

struct category_row {
  std::string name;
  std::uint64_t figures[4];  // by samples now and at the highest, by library the same
};

category_row row_of(document const& from) {
  document const &sampled = field(from, "samples"), &called = field(from, "libraries");
  return {words(from, "name"),
          {number_or_zero(sampled, "now_bytes"), number_or_zero(sampled, "at_highest_bytes"),
           number_or_zero(called, "now_bytes"), number_or_zero(called, "at_highest_bytes")}};
}

bool is_empty(category_row const& row) {
  return (row.figures[0] | row.figures[1] | row.figures[2] | row.figures[3]) == 0;
}

std::string row_text(category_row const& row, std::size_t width) {
  constexpr std::size_t columns[] = {13, 16, 15, 16};
  std::string text = left("  " + row.name, width);
  for (std::size_t i = 0; i < 4; ++i)
    text += right(row.figures[i] == 0 ? "-" : bytes_text(row.figures[i]), columns[i]);
  return text + "\n";
}

}  // namespace

void add_categories(std::string& text, document const& from, text_options const& options) {
  document const& devices = field(field(from, "categories"), "devices");
  if (!devices.is_array()) return;
  std::size_t const width = options.width < page_width ? 20 : 36;
  std::string_view const now = when_written(from);
  for (auto const& device : devices) {
    document const& rows = field(device, "rows");
    if (!rows.is_array()) continue;
    category_row all{"together", {}};
    std::string lines;
    for (auto const& entry : rows) {
      category_row const row = row_of(entry);
      if (is_empty(row)) continue;
      lines += row_text(row, width);
      for (std::size_t i = 0; i < 4; ++i) all.figures[i] += row.figures[i];
    }
    if (lines.empty()) continue;
    text += base::format("\n{}{}{}\n{}{}{}{}{}\n{}{}",
                         left(base::format("CATEGORIES device {}", number_or_zero(device, "device")), width),
                         right("by samples, about", 29), right("by library", 31), std::string(width, ' '),
                         right(now, 13), right("when all most", 16), right(now, 15),
                         right("when all most", 16), lines, row_text(all, width));
  }
}

std::string failure_categories_text(document const& failure) {
  document const& rows = field(failure, "categories");
  std::uint64_t const all = number_or_zero(failure, "sampled_bytes");
  std::string line;
  std::uint64_t named = 0;
  auto const add = [&](std::string const& name, std::uint64_t bytes) {
    line += base::format("{}{} about {} ({})", line.empty() ? "" : ", ", name, bytes_text(bytes),
                         percent_text(std::min(bytes, all), all));
  };
  for (std::size_t i = 0; rows.is_array() && i < rows.size(); ++i) {
    std::uint64_t const bytes = number_or_zero(rows[i], "held_bytes");
    named += bytes;
    add(words(rows[i], "name"), bytes);
  }
  if (!line.empty() && named < all) add("small sites", all - named);
  return line;
}

}  // namespace gpumem::report
