// line_writer: everything arrives through short writes, a closed pipe costs no signal, errno stays.
#include "core/base/log/line_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

namespace gpumem::base {
namespace {

struct pipe_pair {
  int ends[2];
  pipe_pair() { EXPECT_EQ(::pipe(ends), 0); }
  ~pipe_pair() {
    ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
  std::string rest() {
    ::close(ends[1]);
    ends[1] = -1;
    std::string all;
    char part[4096];
    for (ssize_t got; (got = ::read(ends[0], part, sizeof part)) > 0;)
      all.append(part, static_cast<std::size_t>(got));
    return all;
  }
};

TEST(line_writer, prints_text_and_numbers) {
  pipe_pair pipe;
  {
    line_writer out(pipe.ends[1]);
    out << "n " << std::uint64_t{18446744073709551615u} << ' ' << std::int64_t{INT64_MIN} << ' ' << 0;
    EXPECT_TRUE(out.flush());
  }
  EXPECT_EQ(pipe.rest(), "n 18446744073709551615 -9223372036854775808 0");
}

TEST(line_writer, a_full_non_blocking_pipe_gets_everything) {
  pipe_pair pipe;
  ::fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK);
  std::string const text(300'000, 'x');  // beyond any pipe buffer: short writes and EAGAIN are certain
  std::string got;
  std::thread reader([&] {
    char part[1000];
    while (got.size() < text.size()) {
      ssize_t const n = ::read(pipe.ends[0], part, sizeof part);
      if (n <= 0) break;
      got.append(part, static_cast<std::size_t>(n));
    }
  });
  bool good = true;
  {
    line_writer out(pipe.ends[1]);
    out << text;
    good = out.flush();
  }
  reader.join();
  EXPECT_TRUE(good);
  EXPECT_EQ(got, text);
}

TEST(line_writer, a_closed_pipe_raises_no_signal_and_keeps_errno) {
  EXPECT_EXIT(
      {
        ::signal(SIGPIPE, SIG_DFL);
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(9);
        ::close(ends[0]);
        errno = 77;
        bool const good = write_all(ends[1], "nobody reads this");
        ::_exit(!good && errno == 77 ? 3 : 4);
      },
      testing::ExitedWithCode(3), "");
}

TEST(line_writer, a_file_size_limit_raises_no_signal) {
  EXPECT_EXIT(
      {
        ::signal(SIGXFSZ, SIG_DFL);
        rlimit none{};  // both limits 0
        char name[] = "/tmp/gpumem_line_writer_XXXXXX";
        int const descriptor = ::mkstemp(name);
        ::unlink(name);
        ::setrlimit(RLIMIT_FSIZE, &none);
        ::_exit(write_all(descriptor, "too much") ? 4 : 3);
      },
      testing::ExitedWithCode(3), "");
}

// Of each kind that a reader stands behind; by two sizes, as a pipe of few bytes need not be opened again.
struct unread {
  char const* name;
  int (*open)(int (&ends)[2]);
};

int a_pipe(int (&ends)[2]) {
  return ::pipe(ends);
}
int a_socket(int (&ends)[2]) {
  return ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
}
int a_terminal(int (&ends)[2]) {
  ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (::grantpt(ends[0]) != 0 || ::unlockpt(ends[0]) != 0) return -1;
  ends[1] = ::open(::ptsname(ends[0]), O_RDWR | O_NOCTTY);
  return ends[1] < 0 ? -1 : 0;
}

class nobody_reads : public testing::TestWithParam<unread> {};

INSTANTIATE_TEST_SUITE_P(line_writer, nobody_reads,
                         testing::Values(unread{"pipe", &a_pipe}, unread{"socket", &a_socket},
                                         unread{"terminal", &a_terminal}),
                         [](auto const& of) { return std::string(of.param.name); });

TEST_P(nobody_reads, and_nobody_waits_for_ever) {
  int ends[2];
  ASSERT_EQ(GetParam().open(ends), 0);
  constexpr std::uint64_t soon = 30'000'000;
  std::string const much(1'000'000, 'x');
  errno = 77;
  EXPECT_EQ(write_all_or_errno(ends[1], much, soon), ETIMEDOUT);
  EXPECT_EQ(write_all_or_errno(ends[1], "a line\n", soon), ETIMEDOUT);
  EXPECT_EQ(write_all_or_errno(ends[1], "another\n", 0), ETIMEDOUT);
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(::fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0) << "it is the program's, and waits as before";
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(nobody_reads, until_somebody_does) {
  int ends[2];
  ASSERT_EQ(GetParam().open(ends), 0);
  std::string const text(300'000, 'x');
  std::size_t got = 0;
  std::thread slow([&] {
    char part[50'000];
    while (got < text.size()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ssize_t const n = ::read(ends[0], part, sizeof part);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
  });
  EXPECT_EQ(write_all_or_errno(ends[1], text), 0);
  slow.join();
  EXPECT_EQ(got, text.size());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(line_writer, a_bad_descriptor_is_told) {
  EXPECT_FALSE(write_all(-1, "x"));
}

}  // namespace
}  // namespace gpumem::base
