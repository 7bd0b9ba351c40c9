// WHO: which libraries hold memory of a device, in the text report. Used by text.cpp only; see
// text_sections.hpp.
#include <algorithm>
#include <vector>

#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"
#include "core/report/document.hpp"
#include "core/report/output/text_format.hpp"
#include "core/report/output/text_sections.hpp"

namespace gpumem::report {
namespace {

constexpr std::size_t shown_libraries = 8;

struct library_row {
  std::string name;
  std::uint64_t now = 0, highest = 0, at_highest = 0;
};

// The largest ones, and all others in one row.
std::vector<library_row> rows_of(document const& libraries) {
  std::vector<library_row> rows;
  std::size_t others = 0;
  for (auto const& library : libraries) {
    library_row row{library_name(library),
                    number_or_zero(library, "routed_bytes") + number_or_zero(library, "observed_bytes"),
                    number_or_zero(library, "highest_bytes"), number_or_zero(library, "at_highest_bytes")};
    if (rows.size() < shown_libraries || others == 0) {
      if (rows.size() == shown_libraries) ++others;
      rows.push_back(std::move(row));
      continue;
    }
    ++others;
    rows.back().now += row.now;
    rows.back().at_highest += row.at_highest;
    rows.back().highest = 0;  // of several at different times: not known
    rows.back().name = std::to_string(others) + " others";
  }
  return rows;
}

std::string row_text(library_row const& row, std::size_t width) {
  return base::format("  {}{}{}{}\n", left(row.name, width), right(bytes_text(row.now), 13),
                      right(row.highest == 0 ? "-" : bytes_text(row.highest), 13),
                      right(bytes_text(row.at_highest), 16));
}

}  // namespace

void add_libraries(std::string& text, document const& from, text_options const& options) {
  document const& devices = field(from, "devices");
  if (!devices.is_array()) return;
  std::size_t const width = options.width < page_width ? 36 : 52;
  for (auto const& device : devices) {
    document const& libraries = field(device, "libraries");
    if (!libraries.is_array() || libraries.size() < 2) continue;
    text += base::format("\n{}{}{}{}\n",
                         left(base::format("WHO device {}", number_or_zero(device, "device")), width + 2),
                         right(when_written(from), 13), right("highest", 13), right("when all most", 16));
    library_row all{.name = "together"};
    for (library_row const& row : rows_of(libraries)) {
      text += row_text(row, width);
      all.now += row.now;
      all.at_highest += row.at_highest;
    }
    text += row_text(all, width);
  }
}

}  // namespace gpumem::report
