// log: one line a message, prefix and level, the level of start_log holds; patterns, files, forks, threads.
#include "core/base/log/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <regex.h>  // libc's: std::regex takes 15 s to compile under sanitizers
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

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

// One message of level `level` as `pattern` writes it.
std::string written(char const* pattern, log_level level, std::string_view text) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  start_log(ends[1], log_level::trace, pattern);
  log_line(level, text);
  std::string const line = read_back(ends[0]);
  start_log(2, log_level::warn);
  ::close(ends[0]);
  ::close(ends[1]);
  return line;
}

TEST(log, patterns) {
  EXPECT_EQ(written("%n|%l|%L|%w|%v|%%", log_level::warn, "a"), "gpumem|warning|W|warning: |a|%\n");
  EXPECT_EQ(written("%l %w%v", log_level::debug, "a"), "debug a\n");
  EXPECT_EQ(written("[%8l][%-8l][%=8l][%3!l] %v", log_level::error, "a"),
            "[   error][error   ][ error  ][err] a\n");
  EXPECT_EQ(written("%P %t %v", log_level::info, "a"),
            std::to_string(::getpid()) + " " + std::to_string(::gettid()) + " a\n");
  EXPECT_EQ(written("", log_level::error, "a"), "gpumem: error: a\n");
  EXPECT_EQ(written("%Q", log_level::error, "a"),
            "gpumem: error: a\n");  // the configuration refuses it before
}

TEST(log, times_are_utc_whatever_the_zone) {
  ASSERT_EQ(::setenv("TZ", "Asia/Tokyo", 1), 0);
  ::tzset();
  timespec before{}, after{};
  ::clock_gettime(CLOCK_REALTIME, &before);
  std::string const line =
      written("%Y-%m-%dT%H:%M:%S%z %a %A %b %B %e %f %F %E %D %T %R %I %p %r %c %C %v", log_level::warn, "a");
  ::clock_gettime(CLOCK_REALTIME, &after);
  bool found = false;
  for (time_t at = before.tv_sec; at <= after.tv_sec; ++at) {
    tm utc{};
    char text[200];
    ::gmtime_r(&at, &utc);
    ::strftime(text, sizeof text,
               "%Y-%m-%dT%H:%M:%S\\+00:00 %a %A %b %B ([0-9]{3}) (\\1[0-9]{3}) (\\2[0-9]{3}) ", &utc);
    std::string wanted = text + std::to_string(at);
    // spdlog counts the hours before noon from 00.
    int const hour = utc.tm_hour > 12 ? utc.tm_hour - 12 : utc.tm_hour;
    std::string const twelve = std::string(hour < 10 ? "0" : "") + std::to_string(hour);
    ::strftime(text, sizeof text, " %D %T %R ", &utc);
    wanted += text + twelve;
    ::strftime(text, sizeof text, utc.tm_hour >= 12 ? " PM " : " AM ", &utc);
    wanted += text + twelve;
    ::strftime(text, sizeof text, utc.tm_hour >= 12 ? ":%M:%S PM %a %b " : ":%M:%S AM %a %b ", &utc);
    wanted += text + std::to_string(utc.tm_mday);
    ::strftime(text, sizeof text, " %T %Y %y a\n", &utc);
    regex_t compiled;
    ASSERT_EQ(::regcomp(&compiled, ("^" + wanted + text + "$").c_str(), REG_EXTENDED | REG_NOSUB), 0);
    found = found || ::regexec(&compiled, line.c_str(), 0, nullptr, 0) == 0;
    ::regfree(&compiled);
  }
  EXPECT_TRUE(found) << line;
  ::unsetenv("TZ");
  ::tzset();
}

TEST(log, a_line_is_one_line_without_control_characters) {
  EXPECT_EQ(written("%v", log_level::warn, "a\nb\x1b[31m\xff"), "a?b?[31m?\n");
  EXPECT_EQ(written("%2!v", log_level::warn, "a\u00fc"), "a?\n");  // cut in the middle of a letter
  std::string const longer_than_a_buffer(4000, 'x');
  EXPECT_EQ(written("%v", log_level::warn, longer_than_a_buffer), longer_than_a_buffer + "\n");
}

struct temporary_file {
  char path[32] = "/tmp/gpumem-log-test.XXXXXX";
  int descriptor = ::mkstemp(path);
  ~temporary_file() { ::unlink(path); }

  std::string text() const {
    int const file = ::open(path, O_RDONLY | O_CLOEXEC);
    std::string const all = read_back(file);
    ::close(file);
    return all;
  }
};

TEST(log, into_a_file) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  temporary_file file;
  start_log(ends[1], log_level::info, "%L %v");
  log_into(file.descriptor, file.path);
  log_line(log_level::info, "one");
  EXPECT_EQ(log_descriptor(), ends[1]);  // of reports
  EXPECT_EQ(file.text(), "I one\n");
  EXPECT_EQ(read_back(ends[0]), "");

  // A log that begins again, as in a forked child, has nothing to do with that file any more.
  start_log(ends[1], log_level::info);
  log_line(log_level::info, "two");
  EXPECT_EQ(file.text(), "I one\n");
  EXPECT_EQ(read_back(ends[0]), "gpumem: two\n");
  EXPECT_EQ(::fcntl(file.descriptor, F_GETFD), -1);
  start_log(2, log_level::warn);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(log, a_file_that_fails_is_named_once_and_stderr_has_the_lines) {
  int ends[2], others[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  ASSERT_EQ(::pipe2(others, O_NONBLOCK), 0);
  int const full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  start_log(ends[1], log_level::warn);
  log_into(full, "a\nname");
  errno = 7;
  log_line(log_level::warn, "one");
  EXPECT_EQ(errno, 7);
  log_line(log_level::error, "two");
  constexpr char const* said =
      "gpumem: warning: a?name cannot be written: it was closed, or its disk is full; messages go to "
      "stderr\n";
  EXPECT_EQ(read_back(ends[0]), std::string(said) + "gpumem: warning: one\ngpumem: error: two\n");

  // Its number became a file of the program's.
  start_log(ends[1], log_level::warn);
  int const mine = ::fcntl(others[1], F_DUPFD_CLOEXEC, 3);
  int const log = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  log_into(log, "log");
  ASSERT_EQ(::dup2(mine, log), log);
  log_line(log_level::warn, "one");
  EXPECT_EQ(read_back(others[0]), "");
  EXPECT_TRUE(read_back(ends[0]).ends_with("gpumem: warning: one\n"));
  start_log(2, log_level::warn);
  EXPECT_NE(::fcntl(log, F_GETFD), -1) << "the program's own file was closed";
  for (int const one : {ends[0], ends[1], others[0], others[1], mine, log}) ::close(one);
}

TEST(log, a_child_forked_among_threads_that_log_can_log) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  int const nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  start_log(nowhere, log_level::warn, "%Y-%m-%d %H:%M:%S %v");
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        for (int line = 0; line < 200; ++line) log_line(log_level::warn, "from a thread");
        start_log(nowhere, log_level::warn, "%Y-%m-%d %H:%M:%S %v");
      }
    });
  }
  int good = 0;
  for (int i = 0; i < 50; ++i) {
    pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(20);  // ends a child that waits for a lock
      log_line(log_level::warn, "from the child");
      start_log(ends[1], log_level::warn, "%v");
      log_line(log_level::warn, "c");
      ::_exit(0);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    if (status == 0) ++good;
  }
  done = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 50);
  std::string lines;
  for (int i = 0; i < 50; ++i) lines += "c\n";
  EXPECT_EQ(read_back(ends[0]), lines);
  start_log(2, log_level::warn);
  for (int const one : {ends[0], ends[1], nowhere}) ::close(one);
}

}  // namespace
}  // namespace gpumem::base
