// See text_call_sites.hpp.
#include "core/report/output/text_call_sites.hpp"

#include <algorithm>
#include <vector>

#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"
#include "core/report/document.hpp"
#include "core/report/output/text_format.hpp"
#include "core/report/places.hpp"

namespace gpumem::report {
namespace {

constexpr std::size_t shown_sites = 10;
constexpr std::size_t shown_frames = 4;

std::string counted(std::uint64_t count, char const* noun) {
  return count_text(count) + " " + noun + (count == 1 ? "" : "s");
}

std::vector<std::string> place_lines(document const& site) {
  document const& frames = field(site, "frames");
  if (!frames.is_array() || frames.empty()) return {"an unknown place"};
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(frames.size(), shown_frames); ++i)
    lines.push_back(frame_text(frames[i]));
  for (std::string& place : python_places(site)) lines.push_back(std::move(place));
  return lines;
}

document const& site_of(document const& from, document const& misuse, char const* name) {
  auto const id = number(misuse, name);
  document const& sites = field(from, "call_sites");
  if (id && sites.is_array()) {
    for (auto const& site : sites) {
      if (number(site, "id") == id) return site;
    }
  }
  return field(from, "");
}

struct site_row {
  std::uint64_t count, bytes;
  document const* site;
};

// Rows of one node, in the order of the document.
std::vector<site_row> rows_of(document const& from, std::uint64_t node, bool live) {
  std::vector<site_row> rows;
  document const& sites = field(from, "call_sites");
  if (!sites.is_array()) return rows;
  for (auto const& site : sites) {
    if (number(site, "node") != node) continue;
    std::uint64_t count = number_or_zero(site, "allocations"),
                  bytes = number_or_zero(site, "allocated_bytes");
    if (live) {
      count -= std::min(count, number_or_zero(site, "frees"));
      bytes -= std::min(bytes, number_or_zero(site, "freed_bytes"));
    }
    if (count != 0) rows.push_back({count, bytes, &site});
  }
  return rows;
}

bool has_stacks(std::vector<site_row> const& rows) {
  return std::any_of(rows.begin(), rows.end(), [](site_row const& row) {
    document const& frames = field(*row.site, "frames");
    return frames.is_array() && frames.size() > 1;
  });
}

std::string left_or_whole(std::string const& text, std::size_t width) {
  return text.size() > width ? left(text, width) : text;
}

void add_rows(std::string& text, std::vector<site_row> const& rows, std::size_t most, std::size_t indent,
              std::size_t width) {
  for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) {
    auto const places = place_lines(*rows[i].site);
    std::string const head = std::string(indent, ' ') + right(count_text(rows[i].count), 10) +
                             right(bytes_text(rows[i].bytes), 13) + "  ";
    text += left(head + places.front(), std::max(width, head.size()));
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
    for (std::size_t f = 1; f < places.size(); ++f)
      text +=
          std::string(head.size(), ' ') + "from " + left_or_whole(places[f], width - head.size() - 5) + "\n";
  }
  if (rows.size() > most)
    text += base::format("{}{} more call sites, all in the JSON report\n", std::string(indent, ' '),
                         count_text(rows.size() - most));
}

std::string sizes_text(document const& sizes, std::string const& indent, std::size_t width) {
  std::string text, line = indent + "  sizes";
  if (!sizes.is_array() || sizes.empty()) return {};
  for (auto const& size : sizes) {
    auto const limit = number(size, "up_to_bytes");
    std::string const part =
        base::format("  <= {} {}", limit ? std::string(base::print_exact_bytes(*limit).view()) : "any",
                     count_text(number_or_zero(size, "requests")));
    if (line.size() + part.size() > width) {
      text += line + "\n";
      line = indent + "       ";
    }
    line += part;
  }
  return text + line + "\n";
}

std::string fault_text(document const& misuse) {
  std::string const kind = words(misuse, "kind");
  auto const address = number_or_zero(misuse, "address"), offset = number_or_zero(misuse, "offset_bytes");
  std::string const block =
      base::format("block {:#x} of {}", address,
                   std::string(base::print_exact_bytes(number_or_zero(misuse, "block_bytes")).view()));
  if (kind == "double free") return base::format("{:#x} was freed a second time", address);
  if (kind == "foreign free") return base::format("{:#x} was freed, and is no block of anyone's", address);
  if (kind == "interior free" && offset == 0) return block + " was freed by a function for other memory";
  if (kind == "interior free")
    return base::format("{:#x} was freed, {} bytes into {}", address + offset, offset, block);
  return block + " was written to behind its end";
}

}  // namespace

void add_node_figures(std::string& text, document const& from, document const& node,
                      std::string const& indent, text_options const& options) {
  document const& figures = field(node, "statistics");
  if (figures.is_object()) {
    for (std::string const when : {"now", "highest", "total"}) {
      text += base::format("{}  {}{} in {}\n", indent, left(when, 7),
                           right(bytes_text(number_or_zero(figures, when + "_bytes")), 13),
                           counted(number_or_zero(figures, when + "_blocks"), "block"));
    }
    text += sizes_text(field(figures, "sizes"), indent, options.width);
  }
  if (words(node, "type") != "statistics") return;
  auto const rows = rows_of(from, number_or_zero(node, "id"), false);
  if (rows.empty()) return;
  text += indent + "  callers, most bytes first\n";
  add_rows(text, rows, 5, indent.size() + 2, options.width);
}

void add_leaks(std::string& text, document const& from, text_options const& options) {
  document const& chains = field(from, "chains");
  if (!chains.is_array()) return;
  for (auto const& chain : chains) {
    document const& nodes = field(chain, "nodes");
    if (!nodes.is_array()) continue;
    for (auto const& node : nodes) {
      if (words(node, "type") != "tracking") continue;
      auto const rows = rows_of(from, number_or_zero(node, "id"), true);
      std::uint64_t count = 0, bytes = 0;
      for (auto const& row : rows) count += row.count, bytes += row.bytes;
      if (count == 0) continue;
      text += base::format("\nLEAKS {} {}  {}, {}, not given back, from {}\n", words(chain, "route"),
                           number_or_zero(chain, "device"), counted(count, "block"), bytes_text(bytes),
                           counted(rows.size(), "call site"));
      add_rows(text, rows, shown_sites, 0, options.width);
      if (words(field(from, "intercept"), "cudart") == "static" && !has_stacks(rows))
        text += "  static CUDA runtime: with capture_stacks = true these are the program's own callers\n";
    }
  }
}

void add_misuses(std::string& text, document const& from, text_options const& options) {
  document const& misuses = field(from, "misuses");
  if (!misuses.is_array() || misuses.empty()) return;
  std::uint64_t const all = misuses.size() + number_or_zero(field(from, "truncated"), "misuses");
  text += "\nMISUSE " + count_text(all);
  if (all > misuses.size()) text += base::format(", the first {} kept", misuses.size());
  text += '\n';
  std::size_t left_to_show = shown_sites;
  for (auto const& misuse : misuses) {
    if (left_to_show-- == 0) break;
    text += base::format("  {}  {}\n", duration_text(number_or_zero(misuse, "t_ns")), fault_text(misuse));
    bool const zone = words(misuse, "kind") == "damaged zone";
    if (zone)
      text += base::format("            {} of its red zone, the first at offset {} from the block's start\n",
                           counted(number_or_zero(misuse, "damaged_bytes"), "byte"),
                           count_text(number_or_zero(misuse, "offset_bytes")));
    struct part {
      char const* name;
      char const* said;
    };
    for (part const& p : {part{"here", zone ? "found by the free at" : "at"},
                          part{"freed_at", "freed first at"}, part{"allocated_at", "allocated at"}}) {
      document const& site = site_of(from, misuse, p.name);
      if (!site.is_object()) continue;
      std::string const line = base::format("            {} {}", p.said, place_lines(site).front());
      text += left_or_whole(line, options.width) + "\n";
    }
  }
  if (all > shown_sites && misuses.size() > shown_sites) text += "  the rest is in the JSON report\n";
}

}  // namespace gpumem::report
