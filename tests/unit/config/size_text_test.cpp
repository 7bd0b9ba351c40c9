// Sizes and percentages of the configuration: read, written back, and turned into bytes of a device.
#include "config/text/size_text.hpp"

#include <gtest/gtest.h>

namespace gpumem::config {
namespace {

using unit = size_value::unit;

size_value good(std::string_view text) {
  auto const reading = read_size(text, true);
  EXPECT_TRUE(reading.value) << text << ": " << reading.problem;
  return reading.value.value_or(size_value{});
}

TEST(size_text, reads_percentages_with_any_spacing) {
  for (char const* text : {"50 % of free", "50% of free", "50%of free", " 50  %   of free "}) {
    EXPECT_EQ(good(text).kind, unit::percent_of_free) << text;
    EXPECT_DOUBLE_EQ(good(text).percent, 50) << text;
  }
  EXPECT_EQ(good("12.5 % of total").kind, unit::percent_of_total);
  EXPECT_DOUBLE_EQ(good("12.5 % of total").percent, 12.5);
}

TEST(size_text, a_refusal_has_a_reason_and_a_remedy) {
  for (char const* text :
       {"50 %", "% of free", "101 % of free", "-1 % of total", "5 % of", "1..5 % of free", "70 G", "x", "",
        "5 GIB", "1e3", "0.3 B", "nan % of free", "99999999999999 % of free", "1. % of free"}) {
    auto const reading = read_size(text, true);
    EXPECT_FALSE(reading.value) << text;
    EXPECT_FALSE(reading.problem.empty()) << text;
    EXPECT_FALSE(reading.remedy.empty()) << text;
  }
  EXPECT_FALSE(read_size("50 % of free", false).value);
}

TEST(size_text, what_is_written_reads_back_to_the_same) {
  for (char const* text : {"0 B", "1025 B", "512 MiB", "1536 MiB", "50 % of free", "12.5 % of total",
                           "0.0001 % of free", "99.9999 % of total", "100 % of free"}) {
    EXPECT_EQ(write_size(good(text)), text);
  }
  EXPECT_EQ(write_size(good("70 GB")), "68359375 KiB");
}

TEST(size_value, resolves_against_the_device_in_whole_bytes) {
  constexpr std::uint64_t free_bytes = 1000, total = 80ULL << 30;
  EXPECT_EQ(good("512 MiB").resolve(free_bytes, total), 512ULL << 20);
  EXPECT_EQ(good("50 % of free").resolve(free_bytes, total), 500u);
  EXPECT_EQ(good("100 % of total").resolve(free_bytes, total), total);
  EXPECT_EQ(good("12.5 % of total").resolve(free_bytes, total), 10ULL << 30);
  EXPECT_EQ(good("33.3333 % of free").resolve(free_bytes, total), 333u);
  EXPECT_EQ(good("100 % of total").resolve(0, ~0ULL), ~0ULL);
  EXPECT_EQ(good("0 % of total").resolve(free_bytes, total), 0u);
}

}  // namespace
}  // namespace gpumem::config
