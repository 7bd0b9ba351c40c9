// PHASES: what was held while named parts of the program's work were open, in the text report. Used by
// text.cpp only; see text_sections.hpp.
#include <algorithm>
#include <vector>

#include "core/base/text/format.hpp"
#include "core/report/document.hpp"
#include "core/report/output/text_format.hpp"
#include "core/report/output/text_sections.hpp"

namespace gpumem::report {
namespace {

constexpr std::size_t most_phases = 12;

struct phase_row {
  document const* phase = nullptr;
  document const* figures = nullptr;  // of the device

  std::uint64_t highest() const { return number_or_zero(*figures, "highest_bytes"); }
  std::uint64_t added() const { return number_or_zero(*figures, "added_bytes"); }
};

std::vector<phase_row> phase_rows(document const& names, std::uint64_t device) {
  std::vector<phase_row> rows;
  for (auto const& phase : names) {
    document const& devices = field(phase, "devices");
    for (std::size_t i = 0; devices.is_array() && i < devices.size(); ++i) {
      if (number(devices[i], "device") == device) rows.push_back({&phase, &devices[i]});
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](phase_row const& one, phase_row const& other) {
    return std::pair(one.highest(), one.added()) > std::pair(other.highest(), other.added());
  });
  return rows;
}

// Padded by characters: names are the program's.
std::string name_text(std::string const& name, std::size_t width) {
  std::string const text = left(name, width);
  auto const rest = std::count_if(text.begin(), text.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xc0) == 0x80;
  });
  return text + std::string(static_cast<std::size_t>(rest), ' ');
}

std::string phase_row_text(phase_row const& row, std::size_t width, bool wide) {
  std::string text = "  " + name_text(words(*row.phase, "name"), width);
  text += right(count_text(number_or_zero(*row.phase, "entered")), 10);
  text += right(duration_text(number_or_zero(*row.phase, "inside_ns")), 12);
  text += right(bytes_text(row.highest()), 13) + right(bytes_text(row.added()), 13);
  text += right(count_text(number_or_zero(*row.figures, "requests")), 12);
  if (wide) text += right(count_text(number_or_zero(*row.figures, "growths")), 9);
  std::uint64_t const refused = number_or_zero(*row.figures, "refusals");
  if (refused != 0) text += base::format("\n    refused {}", count_text(refused));
  return text + "\n";
}

}  // namespace

void add_phases(std::string& text, document const& from, text_options const& options) {
  document const& phases = field(from, "phases");
  document const& names = field(phases, "names");
  document const& devices = field(from, "devices");
  if (!names.is_array() || !devices.is_array()) return;
  bool const wide = options.width >= page_width;
  std::size_t const width = std::min(options.width, page_width) - (wide ? 71 : 62);
  bool any = false;
  for (auto const& device : devices) {
    std::uint64_t const ordinal = number_or_zero(device, "device");
    auto const rows = phase_rows(names, ordinal);
    if (rows.empty()) continue;
    any = true;
    text += base::format("\n{}{}{}{}{}{}{}\n", left(base::format("PHASES device {}", ordinal), width + 2),
                         right("entered", 10), right("inside", 12), right("highest", 13), right("added", 13),
                         right("requests", 12), wide ? right("grown", 9) : "");
    for (std::size_t i = 0; i < std::min(rows.size(), most_phases); ++i)
      text += phase_row_text(rows[i], width, wide);
    if (rows.size() > most_phases)
      text += base::format("  {} others\n", count_text(rows.size() - most_phases));
  }
  std::uint64_t const unmeasured = number_or_zero(phases, "unmeasured");
  if (any && unmeasured != 0)
    text += base::format("  {} more were entered while {} were open, and not measured\n",
                         count_text(unmeasured), count_text(stats::max_open_phases));
}

}  // namespace gpumem::report
