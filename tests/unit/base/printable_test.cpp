// printable: whatever a terminal would obey becomes '?', and everything else stays as it is.
#include "core/base/text/printable.hpp"

#include <gtest/gtest.h>

namespace gpumem::base {
namespace {

TEST(printable, words_in_any_language_stay) {
  for (char const* text : {"", "plain ~ text", "Größe 2 µs", "メモリ", "\xf0\x9f\x98\x80", "\xc2\xa0"})
    EXPECT_EQ(printable(text), text);
}

TEST(printable, what_a_terminal_obeys_does_not) {
  EXPECT_EQ(printable("\x1b[31mred\x07\x7f\t\n"), "?[31mred????");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31mred\xc2\x80"),
            "?31mred?");  // U+009B, U+0080
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "cba\xe2\x81\xa6\xe2\x80\xa8"),
            "a?cba??");  // U+202E, U+2066, U+2028
}

TEST(printable, bytes_that_are_no_text) {
  EXPECT_EQ(printable("\xff\xc3"), "??");
  EXPECT_EQ(printable("\xc1\x9b\xe0\x82\x9b"), "?????");  // overlong: two ways of U+009B and its like
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");            // half of a pair of UTF-16
  EXPECT_EQ(printable("\x9b"), "?");                      // the same control in one byte
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
}

TEST(printable, lines_keep_their_ends) {
  EXPECT_EQ(printable_lines("one\n\ttwo\r\n\x1b"), "one\n\ttwo?\n?");
}

// Whatever the bytes are, nothing that is obeyed comes out, and what came out goes through unchanged.
TEST(printable, random_bytes) {
  unsigned state = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
    std::string const safe = printable(text);
    EXPECT_EQ(printable(safe), safe);
    for (char const letter : safe) EXPECT_TRUE(static_cast<unsigned char>(letter) >= ' ' && letter != 0x7f);
    EXPECT_EQ(safe.find("\xc2\x9b"), safe.npos);
  }
}

}  // namespace
}  // namespace gpumem::base
