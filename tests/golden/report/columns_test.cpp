// Columns never run together, whatever their values: each line of figures, split at its blanks, is exactly
// the list of the values that belong into it. Random documents; a value is of any magnitude, often one that
// prints widest.
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <vector>

#include "core/report/document.hpp"
#include "core/report/output/text.hpp"
#include "core/report/output/text_format.hpp"

namespace gpumem::report {
namespace {

std::mt19937_64 numbers(20261122);

std::uint64_t some_number() {
  switch (numbers() % 4) {
    case 0:  // 1,000.00 to 1,023.99 of a unit is the widest that it prints
      return (1000 + numbers() % 24) << 10 * (numbers() % 5) | numbers() % 512;
    case 1:
      return ~std::uint64_t{0} >> numbers() % 8;
    default:
      return numbers() >> numbers() % 64;
  }
}

std::vector<std::string> words_of(std::string const& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string line_with(std::string const& text, std::string const& begin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line;
  }
  return "";
}

void expect_cells(std::string const& text, std::string const& begin, std::string const& cells) {
  std::string const line = line_with(text, begin);
  EXPECT_EQ(words_of(line.substr(std::min(line.size(), begin.size()))), words_of(cells)) << line;
}

std::string bytes_or_dash(std::uint64_t bytes) {
  return bytes == 0 ? "-" : bytes_text(bytes);
}

// On the narrowest page, with what had to be broken made one line again.
std::string narrow(document const& from) {
  text_options look;
  look.width = 80;
  std::string text = render_text(from, look);
  std::string const fold = "\n" + std::string(12, ' ');
  for (auto at = text.find(fold); at != text.npos; at = text.find(fold, at))
    text.replace(at, fold.size(), " ");
  return text;
}

TEST(columns, calls) {
  for (int i = 0; i < 3000; ++i) {
    std::uint64_t const calls = some_number(), bytes = some_number(), failed = some_number();
    document const from = {{"intercept",
                            {{"hooks",
                              {{{"symbol", "cuMemAlloc_v2"},
                                {"runtime", "cudaMalloc"},
                                {"kind", "allocate"},
                                {"calls", calls},
                                {"requested_bytes", bytes},
                                {"served", calls},
                                {"failed", failed},
                                {"route", "device"}}}}}}};
    expect_cells(render_text(from, {}), "  cuMemAlloc_v2        cudaMalloc ",
                 count_text(calls) + " " + bytes_or_dash(bytes) + " " + count_text(failed) + " device");
    expect_cells(narrow(from), "  cuMemAlloc_v2 ",
                 count_text(calls) + " " + bytes_or_dash(bytes) + " " + count_text(failed) + " device");
  }
}

TEST(columns, chains) {
  for (int i = 0; i < 3000; ++i) {
    std::uint64_t const requests = some_number(), upstream = some_number(), failed = some_number();
    std::uint64_t const in = some_number(), now = some_number(), hits = numbers() % 2 == 0 ? 0 : requests / 3;
    document const from = {{"chains",
                            {{{"route", "device"},
                              {"device", 0},
                              {"nodes",
                               {{{"name", "pool"},
                                 {"type", "pool"},
                                 {"depth", 0},
                                 {"requests", requests},
                                 {"hits", hits},
                                 {"upstream", upstream},
                                 {"failed", failed},
                                 {"handed_out_bytes", in},
                                 {"now_bytes", now}}}}}}}};
    for (std::string const& text : {render_text(from, {}), narrow(from)})
      expect_cells(text, "  pool ",
                   count_text(requests) + " " + (hits == 0 ? "-" : percent_text(hits, requests)) + " " +
                       count_text(upstream) + " " + count_text(failed) + " " + bytes_text(in) + " " +
                       bytes_text(now));
  }
}

TEST(columns, devices) {
  for (int i = 0; i < 3000; ++i) {
    std::uint64_t const now = some_number(), peak = some_number();
    auto const column = [](std::uint64_t bytes) {
      return document{{"requested_bytes", bytes}, {"rounding_bytes", 0},     {"pending_bytes", 0},
                      {"cached_bytes", 0},        {"reserved_bytes", bytes}, {"observed_bytes", bytes},
                      {"unseen_bytes", 0},        {"in_use_bytes", bytes}};
    };
    document const from = {
        {"devices",
         {{{"device", 0}, {"now", column(now)}, {"at_peak", column(peak)}, {"peak_at_ns", some_number()}}}}};
    std::string const text = render_text(from, {});
    std::vector<std::string> const cells = words_of(line_with(text, "  = reserved from the driver"));
    ASSERT_EQ(cells.size(), 9u) << line_with(
        text, "  = reserved from the driver");  // four words before, sign included
    EXPECT_EQ(cells[6], cells[8]);              // one unit
    std::string const title = line_with(text, "DEVICE 0");
    EXPECT_EQ(words_of(title).size(), 8u) << title;
  }
}

TEST(columns, sizes) {
  for (int i = 0; i < 1000; ++i) {
    std::uint64_t const count = some_number() / 2 + 1, other = some_number() / 2 + 1;
    document const from = {
        {"sizes",
         {{{"up_to_bytes", 1024}, {"requests", count}}, {{"up_to_bytes", 16384}, {"requests", other}}}}};
    std::string line = line_with(render_text(from, {}), "  <=    1 KiB");
    line.resize(std::min(line.find_last_not_of("# ") + 1, line.size()));
    EXPECT_EQ(words_of(line).size(), 6u) << line;
    EXPECT_EQ(words_of(line).at(3), count_text(count));
  }
}

}  // namespace
}  // namespace gpumem::report
