// log: one line a message, prefix and level, the level of start_log holds.
#include "core/base/log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace gpumem::base {
namespace {

std::string read_back(int descriptor) {
  char text[4096];
  ssize_t const got = ::read(descriptor, text, sizeof text);
  return std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0);
}

TEST(log, lines_carry_prefix_and_level) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  start_log(ends[1], log_level::info);
  log_line(log_level::debug, "not printed");
  log_line(log_level::info, "started {} %s");  // taken as it is, never as a format
  log_line(log_level::warn, "limit 2 GiB");
  log_line(log_level::error, "gone");
  EXPECT_EQ(read_back(ends[0]), "gpumem: started {} %s\ngpumem: warning: limit 2 GiB\ngpumem: error: gone\n");
  EXPECT_EQ(log_descriptor(), ends[1]);

  start_log(ends[1], log_level::off);
  log_line(log_level::error, "not printed");
  ::close(ends[1]);
  EXPECT_EQ(read_back(ends[0]), "");
  ::close(ends[0]);
  start_log(2, log_level::warn);
}

TEST(log, a_descriptor_that_became_another_file_is_left_alone) {
  int before[2], after[2];
  ASSERT_EQ(::pipe(before), 0);
  ASSERT_EQ(::pipe(after), 0);
  start_log(before[1], log_level::warn);
  ASSERT_EQ(::dup2(after[1], before[1]), before[1]);
  ::close(after[1]);
  log_line(log_level::warn, "into somebody's file");
  EXPECT_EQ(log_descriptor(), -1);
  ::close(before[1]);
  EXPECT_EQ(read_back(after[0]), "");
  ::close(before[0]);
  ::close(after[0]);
  start_log(2, log_level::warn);
}

TEST(log, level_names) {
  log_level level = log_level::error;
  EXPECT_TRUE(parse_log_level("trace", level));
  EXPECT_EQ(level, log_level::trace);
  EXPECT_TRUE(parse_log_level("off", level));
  EXPECT_EQ(level, log_level::off);
  EXPECT_FALSE(parse_log_level("loud", level));
  EXPECT_EQ(level, log_level::off);
}

}  // namespace
}  // namespace gpumem::base
