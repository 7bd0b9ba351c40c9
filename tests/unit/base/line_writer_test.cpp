// line_writer: everything arrives through short writes, a closed pipe costs no signal, errno stays.
#include "core/base/log/line_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
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

TEST(line_writer, a_bad_descriptor_is_told) {
  EXPECT_FALSE(write_all(-1, "x"));
}

}  // namespace
}  // namespace gpumem::base
