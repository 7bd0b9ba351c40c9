// Durations of the configuration.
#include "config/text/duration_text.hpp"

#include <gtest/gtest.h>

namespace gpumem::config {
namespace {

TEST(duration_text, reads_milliseconds_seconds_and_minutes) {
  EXPECT_EQ(read_duration("1 ms").nanoseconds, 1'000'000u);
  EXPECT_EQ(read_duration("250ms").nanoseconds, 250'000'000u);
  EXPECT_EQ(read_duration("1.5 s").nanoseconds, 1'500'000'000u);
  EXPECT_EQ(read_duration("0.25 min").nanoseconds, 15'000'000'000u);
  EXPECT_EQ(read_duration("60 min").nanoseconds, 3'600'000'000'000u);
  EXPECT_EQ(read_duration("1.0000005 ms").nanoseconds, 1'000'000u) << "finer than that is left out";
}

TEST(duration_text, a_refusal_has_a_reason_and_a_remedy) {
  for (char const* text : {"", "1", "s", "-1 s", "1 h", "0.9 ms", "61 min", "1.5.5 s", ".5 s", "5. s",
                           "99999999999999 s", "999999999999 min", "1 S"}) {
    auto const reading = read_duration(text);
    EXPECT_FALSE(reading.nanoseconds) << text;
    EXPECT_FALSE(reading.problem.empty()) << text;
    EXPECT_FALSE(reading.remedy.empty()) << text;
  }
}

}  // namespace
}  // namespace gpumem::config
