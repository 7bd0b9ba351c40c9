// WHERE: the code that holds memory of a device, by samples, in the text report; and which of it held most
// when a request was refused. Used by text.cpp and text_sections.cpp only; see text_sections.hpp.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"
#include "core/report/document.hpp"
#include "core/report/output/text_format.hpp"
#include "core/report/output/text_sections.hpp"
#include "core/report/places.hpp"

namespace gpumem::report {
namespace {

constexpr std::size_t most_rows = 5;
constexpr std::uint64_t fewest_samples = 4;  // as much memory as so many stand for: below it chance says more

std::string row_text(std::string const& name, std::uint64_t now, std::uint64_t at_highest,
                     std::size_t width) {
  return base::format("{}{}{}\n", left(name, width), right(bytes_text(now), 13),
                      right(bytes_text(at_highest), 16));
}

std::string from_text(std::string const& place, std::size_t width) {
  std::string const line = "    from " + place;
  return (line.size() > width ? left(line, width) : line) + "\n";
}

std::vector<document const*> sites_of(document const& samples, std::uint64_t device) {
  std::vector<document const*> sites;
  document const& all = field(samples, "sites");
  if (!all.is_array()) return sites;
  for (auto const& site : all) {
    bool const holds = number_or_zero(site, "now_bytes") + number_or_zero(site, "at_highest_bytes") != 0;
    if (holds && number(site, "device") == device) sites.push_back(&site);
  }
  return sites;
}

document const& sampled_site(document const& from, std::uint64_t id) {
  document const& known = field(field(from, "samples"), "sites");
  for (std::size_t i = 0; known.is_array() && i < known.size(); ++i) {
    if (number(known[i], "id") == id) return known[i];
  }
  return field(from, "");
}

}  // namespace

void add_samples(std::string& text, document const& from, text_options const& options) {
  document const& samples = field(from, "samples");
  document const& devices = field(samples, "devices");
  if (!devices.is_array()) return;
  std::uint64_t const every = number_or_zero(samples, "every_bytes");
  std::string const program = words(field(from, "process"), "exe");
  std::string_view const when = when_written(from);
  std::size_t const width = std::min(options.width, page_width) - 29;
  for (auto const& device : devices) {
    std::uint64_t now = number_or_zero(device, "now_bytes"),
                  at_highest = number_or_zero(device, "at_highest_bytes");
    if (std::max(now, at_highest) < fewest_samples * every) continue;
    std::uint64_t const ordinal = number_or_zero(device, "device");
    auto const sites = sites_of(samples, ordinal);
    std::string const title =
        every <= 1 ? base::format("WHERE device {}", ordinal)
                   : base::format("WHERE device {}, about: a sample each {}", ordinal, bytes_text(every));
    text += base::format("\n{}{}{}\n", left(title, width), right(when, 13), right("when all most", 16));
    for (std::size_t i = 0; i < std::min(sites.size(), most_rows); ++i) {
      std::uint64_t const here = number_or_zero(*sites[i], "now_bytes"),
                          then = number_or_zero(*sites[i], "at_highest_bytes");
      auto const places = places_of(*sites[i], program);
      text += row_text("  " + (places.empty() ? "elsewhere" : places[0]), here, then, width);
      for (std::size_t p = 1; p < places.size(); ++p) text += from_text(places[p], width);
      for (std::string const& place : python_places(*sites[i])) text += from_text(place, width);
      now -= std::min(now, here);
      at_highest -= std::min(at_highest, then);
    }
    std::uint64_t const all = number_or_zero(device, "sites");
    if (all > most_rows && now + at_highest != 0)
      text += row_text(base::format("  {} other sites", count_text(all - std::min(sites.size(), most_rows))),
                       now, at_highest, width);
  }
}

std::string failure_sites_text(document const& from, document const& failure) {
  document const& held = field(failure, "sites");
  std::string const program = words(field(from, "process"), "exe");
  constexpr std::size_t shown = 4;
  std::vector<std::pair<std::string, std::uint64_t>> places;  // of several sites in the same line of code one
  for (std::size_t i = 0; held.is_array() && i < held.size(); ++i) {
    document const& site = sampled_site(from, number_or_zero(held[i], "id"));
    if (!site.is_object()) continue;
    std::string place = short_place(site, program);
    auto const known = std::ranges::find(places, place, [](auto const& one) { return one.first; });
    std::uint64_t& bytes =
        known != places.end() ? known->second : places.emplace_back(std::move(place), 0).second;
    bytes += number_or_zero(held[i], "held_bytes");
  }
  std::ranges::stable_sort(places, std::greater{}, [](auto const& one) { return one.second; });
  std::string line;
  for (std::size_t i = 0; i < std::min(places.size(), shown); ++i)
    line += base::format("{}{} about {}", line.empty() ? "" : ", ", places[i].first,
                         bytes_text(places[i].second));
  return line;
}

std::string failure_place_text(document const& from, document const& failure) {
  document const& site = sampled_site(from, number_or_zero(failure, "asked_at"));
  if (!site.is_object()) return {};
  auto places = places_of(site, words(field(from, "process"), "exe"));
  std::string text;
  for (auto const& all : {python_places(site), places}) {
    for (std::string const& place : all) text += (text.empty() ? "" : ", from ") + place;
  }
  return text;
}

}  // namespace gpumem::report
