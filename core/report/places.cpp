// See places.hpp.
#include "core/report/places.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/text/format.hpp"
#include "core/report/fields.hpp"

namespace gpumem::report {
namespace {

constexpr std::size_t shown_python = 3;
constexpr std::size_t most_places = 3;  // of one site

bool is_of_a_package(std::string const& file) {
  constexpr char const* folders[] = {"/site-packages/", "/dist-packages/", "/lib/python3"};
  return file.starts_with('<') ||
         std::any_of(std::begin(folders), std::end(folders),
                     [&file](char const* folder) { return file.find(folder) != file.npos; });
}

std::string python_text(document const& place) {
  auto const line = number(place, "line");
  std::string const file = file_name(words(place, "file"));
  return base::format("{}{} {}", file, line ? base::format(":{}", *line) : "", words(place, "function"));
}

// The innermost one of the program's own files, else the innermost; empty: no Python frames.
std::string python_place(document const& site) {
  document const& lines = field(site, "python");
  if (!lines.is_array() || lines.empty()) return {};
  auto const own = std::find_if(lines.begin(), lines.end(),
                                [](document const& line) { return !is_of_a_package(words(line, "file")); });
  return python_text(own != lines.end() ? *own : lines[0]);
}

}  // namespace

std::string frame_text(document const& frame) {
  std::string const symbol = words(frame, "symbol"), file = words(frame, "file");
  std::string const library = file_name(words(frame, "library"));
  if (!file.empty()) return base::format("{}:{} {}", file_name(file), number_or_zero(frame, "line"), symbol);
  std::string const where = library.empty() ? "generated code" : library;
  if (!symbol.empty()) return where + " " + symbol;
  return base::format("{}+{:#x}", where, number_or_zero(frame, "address"));
}

std::vector<std::string> places_of(document const& site, std::string const& program) {
  std::vector<std::string> places;
  document const& frames = field(site, "frames");
  if (!frames.is_array()) return places;
  for (std::size_t i = 0; i < frames.size() && places.size() < most_places; ++i) {
    std::string const library = words(frames[i], "library");
    bool const is_inner = i + 1 < frames.size() && words(frames[i + 1], "library") == library;
    if (i == 0 || library.empty() || library == program || !is_inner) places.push_back(frame_text(frames[i]));
  }
  return places;
}

std::vector<std::string> python_places(document const& site) {
  std::vector<std::string> places;
  document const& lines = field(site, "python");
  for (std::size_t i = 0; lines.is_array() && i < lines.size() && places.size() < shown_python; ++i) {
    if (i == 0 || !is_of_a_package(words(lines[i], "file"))) places.push_back(python_text(lines[i]));
  }
  if (std::string const thread = words(site, "thread"); !thread.empty()) places.push_back("thread " + thread);
  return places;
}

std::string short_place(document const& site, std::string const& program) {
  if (std::string python = python_place(site); !python.empty()) return python;
  auto const places = places_of(site, program);
  return places.empty() ? "elsewhere" : places[0];
}

}  // namespace gpumem::report
