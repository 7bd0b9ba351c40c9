// Sizes as text: exact both ways, and every way of getting one wrong is told apart.
#include "core/base/text/bytes.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace gpumem::base {
namespace {

constexpr std::uint64_t all_ones = std::numeric_limits<std::uint64_t>::max();

std::uint64_t good(std::string_view text) {
  parsed_size const size = parse_bytes(text);
  EXPECT_EQ(size.error, size_error::none) << text;
  return size.bytes;
}
size_error bad(std::string_view text) {
  return parse_bytes(text).error;
}

TEST(parse_bytes, reads_binary_and_decimal_units_exactly) {
  EXPECT_EQ(good("0"), 0u);
  EXPECT_EQ(good("1024"), 1024u);
  EXPECT_EQ(good("7 B"), 7u);
  EXPECT_EQ(good("7 bytes"), 7u);
  EXPECT_EQ(good("512 MiB"), 512 * mib);
  EXPECT_EQ(good("512MiB"), 512 * mib);
  EXPECT_EQ(good("  70 GiB\t"), 75'161'927'680u);
  EXPECT_EQ(good("70 GB"), 70'000'000'000u);
  EXPECT_EQ(good("3 kB"), 3000u);
  EXPECT_EQ(good("3 KB"), 3000u);
  EXPECT_EQ(good("1.5 GiB"), gib + gib / 2);
  EXPECT_EQ(good("0.5 KiB"), 512u);
  EXPECT_EQ(good("2 TiB"), 2048 * gib);
  EXPECT_EQ(good("15 EiB"), 15 * (gib * gib));
  EXPECT_EQ(good("18446744073709551615"), all_ones);
  EXPECT_EQ(good("000000000000000000000000000005 KiB"), 5 * kib);
}

TEST(parse_bytes, a_bare_prefix_offers_both_readings) {
  for (char const* text : {"70 G", "70G", "70 Gi"}) {
    parsed_size const size = parse_bytes(text);
    EXPECT_EQ(size.error, size_error::bare_prefix) << text;
    EXPECT_EQ(size.bytes, 70 * gib) << text;
    EXPECT_EQ(size.decimal_bytes, 70'000'000'000u) << text;
  }
  parsed_size const huge = parse_bytes("16 E");
  EXPECT_EQ(huge.error, size_error::bare_prefix);
  EXPECT_EQ(huge.bytes, 0u) << "16 EiB does not fit";
  EXPECT_EQ(huge.decimal_bytes, 16'000'000'000'000'000'000u);
}

TEST(parse_bytes, tells_every_mistake_apart) {
  EXPECT_EQ(bad(""), size_error::empty);
  EXPECT_EQ(bad("  "), size_error::empty);
  EXPECT_EQ(bad("-1"), size_error::negative);
  EXPECT_EQ(bad("GiB"), size_error::not_a_number);
  EXPECT_EQ(bad(".5 GiB"), size_error::not_a_number);
  EXPECT_EQ(bad("+1"), size_error::not_a_number);
  EXPECT_EQ(bad("1 gib"), size_error::unknown_unit);
  EXPECT_EQ(bad("1 Gib"), size_error::unknown_unit);
  EXPECT_EQ(bad("1 YiB"), size_error::unknown_unit);
  EXPECT_EQ(bad("1 GiB x"), size_error::unknown_unit);
  EXPECT_EQ(bad("1,024"), size_error::unknown_unit);
  EXPECT_EQ(bad("1e9"), size_error::unknown_unit);
  EXPECT_EQ(bad("1.2.3 GiB"), size_error::unknown_unit);
  EXPECT_EQ(bad("0.1 KiB"), size_error::fraction);
  EXPECT_EQ(bad("0.5"), size_error::fraction);
  EXPECT_EQ(bad("16 EiB"), size_error::overflow);
  EXPECT_EQ(bad("18446744073709551616"), size_error::overflow);
  EXPECT_EQ(bad("99999999999999999999999999999999999999999999999999 EiB"), size_error::overflow);
  EXPECT_EQ(bad("18014398509481984 KiB"), size_error::overflow);
}

TEST(print_bytes, groups_digits_and_keeps_two_decimals) {
  EXPECT_EQ(print_count(0).view(), "0");
  EXPECT_EQ(print_count(999).view(), "999");
  EXPECT_EQ(print_count(1'204'880).view(), "1,204,880");
  EXPECT_EQ(print_count(all_ones).view(), "18,446,744,073,709,551,615");
  EXPECT_EQ(print_all_bytes(75'161'927'680).view(), "75,161,927,680 B");
  EXPECT_EQ(print_bytes(1023).view(), "1,023 B");
  EXPECT_EQ(print_bytes(1024).view(), "1.00 KiB");
  EXPECT_EQ(print_bytes(65'755'950'000).view(), "61.24 GiB");
  EXPECT_EQ(print_bytes(all_ones).view(), "16.00 EiB");
}

TEST(print_bytes, never_prints_1024_of_a_unit) {
  EXPECT_EQ(print_bytes(mib - 1).view(), "1.00 MiB");
  EXPECT_EQ(print_bytes(mib - 6).view(), "1,023.99 KiB");
  EXPECT_EQ(print_bytes(gib - 1).view(), "1.00 GiB");
}

TEST(print_exact_bytes, reads_back_to_the_same_value) {
  EXPECT_EQ(print_exact_bytes(0).view(), "0 B");
  EXPECT_EQ(print_exact_bytes(256 * kib).view(), "256 KiB");
  EXPECT_EQ(print_exact_bytes(1025).view(), "1,025 B");
  EXPECT_EQ(print_exact_bytes(1536 * mib).view(), "1,536 MiB");
  for (std::uint64_t bytes : {std::uint64_t{512}, kib, 999 * mib, 70 * gib, std::uint64_t{1} << 63}) {
    std::string text(print_exact_bytes(bytes).view());
    std::erase(text, ',');
    EXPECT_EQ(good(text), bytes) << text;
  }
}

}  // namespace
}  // namespace gpumem::base
