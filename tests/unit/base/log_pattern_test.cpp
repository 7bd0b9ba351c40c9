// log_pattern: a pattern comes apart into text and flags, and what is wrong with one is named.
#include "core/base/log/log_pattern.hpp"

#include <gtest/gtest.h>

namespace gpumem::base {
namespace {

TEST(log_pattern, text_and_flags) {
  auto const pattern = parse_log_pattern("[%H] %-8l %=5!P%v.");
  ASSERT_EQ(pattern.error, "");
  ASSERT_EQ(pattern.parts.size(), 8u);
  EXPECT_EQ(pattern.parts[0].text, "[");
  EXPECT_EQ(pattern.parts[1].flag, 'H');
  EXPECT_EQ(pattern.parts[3].flag, 'l');
  EXPECT_EQ(pattern.parts[3].width, 8u);
  EXPECT_EQ(pattern.parts[3].blanks, log_pattern_part::side::right);
  EXPECT_FALSE(pattern.parts[3].is_cut);
  EXPECT_EQ(pattern.parts[5].blanks, log_pattern_part::side::center);
  EXPECT_TRUE(pattern.parts[5].is_cut);
  EXPECT_EQ(pattern.parts[7].text, ".");
  EXPECT_EQ(parse_log_pattern(default_log_pattern).error, "");
}

TEST(log_pattern, what_is_wrong_is_named) {
  auto const error = [](std::string_view text) { return parse_log_pattern(text).error; };
  EXPECT_TRUE(error("%q %v").starts_with("\"%q %v\": %q is not known; write %v the message, "))
      << error("%q %v");
  EXPECT_TRUE(error("%v %").starts_with("\"%v %\": % is not known; ")) << error("%v %");
  // spdlog's flags of a place in the source, of colours and of the time since the last line mean nothing
  // here.
  for (char const* flag : {"%v%s", "%v%^", "%v%o", "%v%+"}) EXPECT_NE(error(flag), "") << flag;
  EXPECT_EQ(error("%65v"), "\"%65v\": a width of 65 is too much; it is at most 64");
  EXPECT_EQ(error("%99999999999v"),
            "\"%99999999999v\": a width of 1000 or more is too much; it is at most 64");
  EXPECT_EQ(error("%64v"), "");
  EXPECT_EQ(error("%l"), "\"%l\": it has no %v, so that no line would hold its message; write \"%n: %w%v\"");
  EXPECT_NE(error(""), "");
  EXPECT_EQ(error("%v\n"),
            "\"%v?\": a line has no control characters or line ends, and is UTF-8: leave them out");
  EXPECT_NE(error("\x1b[31m%v"), "");
}

}  // namespace
}  // namespace gpumem::base
