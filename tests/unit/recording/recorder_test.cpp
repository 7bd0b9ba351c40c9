// The recorder of a process: threads that record at once, a kill in the middle, a full disk, files that
// cannot be had, fork. Each in a child, as a process has one recording.
#include "core/recording/writer/recorder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "core/recording/reader/recording_file.hpp"
#include "core/recording/reader/recover.hpp"
#include "core/recording/reader/replay.hpp"
#include "core/recording/writer/record.hpp"
#include "core/recording/writer/recorder_state.hpp"
#include "tests/unit/stats/page_fixture.hpp"

namespace gpumem::recording {
namespace {

class recorder : public stats::page_fixture {
 protected:
  std::string path() const { return folder_ + "/recording"; }

  void start_here(std::uint64_t max_bytes = 0) const {
    open_test_page();
    EXPECT_TRUE(start({.file = path(), .max_bytes = max_bytes, .tool_version = "test"}));
  }

  struct result {
    std::string error;
    std::vector<fault> faults;
    std::uint64_t events = 0, contradictions = 0, live = 0;
    end_state state{};
    std::string reason;
  };
  result read() const {
    result made;
    recording_file file;
    made.error = file.open(path());
    if (!made.error.empty()) return made;
    made.state = file.head().state;
    made.reason = file.head().reason;
    made.faults = file.faults();
    replay played;
    file.read(
        [&](recording_file::item const& each) {
          if (each.what.what != action::thread && !each.is_live) ++made.events;
          played.apply(each.what);
        },
        made.faults);
    made.contradictions = played.contradictions();
    made.live = played.live().size();
    return made;
  }
};

event taken(std::uint64_t address) {
  return {.address = address, .bytes = 1000, .rounding = 24, .what = action::allocate};
}
event given(std::uint64_t address) {
  return {.address = address, .what = action::free};
}

TEST_F(recorder, what_is_noted_is_read) {
  expect_good_child([this] {
    start_here();
    for (std::uint64_t i = 1; i <= 100'000; ++i) {
      note(taken(i * 512));
      if (i > 10) note(given((i - 10) * 512));
    }
    finish();
    EXPECT_FALSE(is_on());
  });
  result const now = read();
  EXPECT_EQ(now.error, "");
  EXPECT_TRUE(now.faults.empty());
  EXPECT_EQ(now.state, end_state::complete);
  EXPECT_EQ(now.events, 199'990u);
  EXPECT_EQ(now.contradictions, 0u);
  EXPECT_EQ(now.live, 10u);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/recordings"));
}

// Addresses wander from thread to thread: the one's free comes before the other's allocation.
TEST_F(recorder, an_address_is_freed_before_it_is_allocated_again) {
  expect_good_child([this] {
    start_here();
    constexpr int threads = 6, addresses = 8, rounds = 20'000;
    std::array<std::atomic<bool>, addresses> used{};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        unsigned at = static_cast<unsigned>(t);
        for (int i = 0; i < rounds; ++i) {
          at = at * 1664525 + 1013904223;
          std::size_t const which = (at >> 16) % addresses;
          bool idle = false;
          if (!used[which].compare_exchange_strong(idle, true)) continue;
          note(taken((which + 1) * 512));
          note(given((which + 1) * 512));
          used[which].store(false);
        }
      });
    }
    for (auto& each : all) each.join();
    finish();
  });
  result const now = read();
  EXPECT_TRUE(now.faults.empty());
  EXPECT_GT(now.events, 10'000u);
  EXPECT_EQ(now.contradictions, 0u);
  EXPECT_EQ(now.live, 0u);
}

// A thread gives back what another took just before: the stamps are of the order that the threads saw, not of
// the order in which a processor looks ahead. No address comes twice, so that only that can contradict.
TEST_F(recorder, what_another_thread_took_is_freed_later) {
  expect_good_child([this] {
    start_here();
    constexpr std::uint64_t rounds = 1'000'000;
    alignas(64) std::atomic<std::uint64_t> newest{0};
    struct alignas(64) word {
      std::atomic<std::uint64_t> stamp{0};
    };
    static std::array<word, 256> words;  // of a block, as it was handed over; a later one is as good
    std::thread other([&] {
      std::uint64_t last = 0, random = 1;
      while (last < rounds) {
        std::uint64_t const now = newest.load(std::memory_order_acquire);
        if (now > last) {
          std::uint64_t stamp = words[now % 256].stamp.load(std::memory_order_relaxed);
          note_block(stamp, (last = now) * 512, 0, 0, 0, kinds_word(action::free, 0, 0, 0));
        }
        for (std::uint64_t i = random % 64; i != 0; --i) random = random * 6364136223846793005ull + 1;
        random += now;
      }
    });
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      std::uint64_t stamp = 0;
      note_block(stamp, i * 512, 1000, 0, 0, kinds_word(action::allocate, 0, 0, 0));
      words[i % 256].stamp.store(stamp, std::memory_order_relaxed);
      newest.store(i, std::memory_order_release);
    }
    other.join();
    finish();
  });
  result const now = read();
  EXPECT_TRUE(now.faults.empty());
#ifdef GPUMEM_UNDER_TSAN
  EXPECT_GT(now.events, 100'000u);  // it is slow: events come faster than they are written, which ends it
#else
  EXPECT_GT(now.events, 500'000u);
#endif
  EXPECT_EQ(now.contradictions, 0u);
}

TEST_F(recorder, a_killed_process_loses_no_event) {
  for (std::uint64_t const count : {10u, 5'000u, 300'000u}) {
    std::filesystem::remove(path());
    int const status = in_child([this, count] {
      start_here();
      for (std::uint64_t i = 1; i <= count; ++i) note(taken(i * 512));
      ::kill(::getpid(), SIGKILL);
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(read().state, end_state::open);
    recovery_result const done = recover(path());
    EXPECT_EQ(done.what, recovery::done) << done.reason;
    result const now = read();
    EXPECT_TRUE(now.faults.empty());
    EXPECT_EQ(now.state, end_state::recovered);
    EXPECT_EQ(now.events, count);
    EXPECT_EQ(now.live, count);
    EXPECT_EQ(recover(path()).what, recovery::not_needed);
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/recordings"));
  }
}

// The head of a recording that somebody else made names a file: it is not read from, and not removed.
TEST_F(recorder, buffers_of_another_user_are_left_alone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  in_child([this] {
    start_here();
    note(taken(512));
    ::kill(::getpid(), SIGKILL);
  });
  auto const buffers = std::filesystem::directory_iterator(folder_ + "/recordings")->path();
  for (auto const& given_away : {buffers.string(), path()}) {
    ASSERT_EQ(::chown(given_away.c_str(), 12345, 12345), 0);
    EXPECT_EQ(recover(path()).what, recovery::no_buffers);
    EXPECT_TRUE(std::filesystem::exists(buffers));
    ASSERT_EQ(::chown(given_away.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(recover(path()).what, recovery::done);
}

// As a disk that lost its mind would leave them, or somebody who means harm.
TEST_F(recorder, damaged_buffers_make_no_file_of_exabytes) {
  in_child([this] {
    start_here();
    for (std::uint64_t i = 1; i <= 100'000; ++i) note(taken(i * 512));
    ::kill(::getpid(), SIGKILL);
  });
  auto const buffers = std::filesystem::directory_iterator(folder_ + "/recordings")->path();
  int const file = ::open(buffers.c_str(), O_RDWR);
  for (std::size_t i = 0; i < spool_slots; ++i) {
    slot_state bad{};
    bad.number = i + 1;
    bad.offset = std::uint64_t{1} << (i % 63);
    bad.bytes = slot_bytes;
    EXPECT_EQ(::pwrite(file, &bad, sizeof bad, static_cast<off_t>(offsetof(area, slots) + i * sizeof bad)),
              static_cast<ssize_t>(sizeof bad));
  }
  ::close(file);
  recover(path());
  EXPECT_LT(std::filesystem::file_size(path()), 64u << 20);
  EXPECT_EQ(read().error, "");
}

// gpumem run and gpumem export at once.
TEST_F(recorder, two_who_complete_it_do_it_once) {
  in_child([this] {
    start_here();
    for (std::uint64_t i = 1; i <= 30'000; ++i) note(taken(i * 512));
    ::kill(::getpid(), SIGKILL);
  });
  std::vector<std::thread> all;
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    all.emplace_back([&] {
      recovery const what = recover(path()).what;
      EXPECT_TRUE(what == recovery::done || what == recovery::not_needed) << static_cast<int>(what);
      done += what == recovery::done ? 1 : 0;
    });
  }
  for (auto& each : all) each.join();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(read().events, 30'000u);
}

TEST_F(recorder, a_size_limit_keeps_the_newest) {
  expect_good_child([this] {
    start_here(1 << 20);
    for (std::uint64_t i = 1; i <= 500'000; ++i) {
      note(taken(i * 512));
      if (i > 10) note(given((i - 10) * 512));
    }
    finish();
  });
  result const now = read();
  for (auto const& each : now.faults) ADD_FAILURE() << each.offset << " " << each.text;
  EXPECT_LE(std::filesystem::file_size(path()), 1u << 20);
  EXPECT_GT(now.events, 20'000u);
  EXPECT_LT(now.events, 900'000u);
  EXPECT_EQ(now.contradictions, 0u);
  EXPECT_EQ(now.live, 10u);
}

TEST_F(recorder, a_file_that_may_not_grow_ends_the_recording_alone) {
  expect_good_child([this] {
    open_test_page();
    ::signal(SIGXFSZ, SIG_DFL);
    EXPECT_TRUE(start({.file = path(), .max_bytes = 0, .tool_version = "test"}));
    rlimit const limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::uint64_t i = 0;
    for (; i < 3'000'000 && is_on(); ++i) note(taken(i * 512));
    EXPECT_FALSE(is_on());
    for (int more = 0; more < 100; ++more) note(taken(i * 512));
    finish();
    EXPECT_NE(std::string(stats::current_page()->fixed.head.recording_stopped), "");
  });
  result const now = read();
  EXPECT_EQ(now.error, "");
  EXPECT_EQ(now.state, end_state::stopped);
  EXPECT_NE(now.reason.find("ulimit"), std::string::npos) << now.reason;
  EXPECT_TRUE(now.faults.empty()) << "what the limit cut is no damage, as the file says that it ended";
  EXPECT_GT(now.events, 10'000u);
}

TEST_F(recorder, where_no_file_can_be_had_there_is_none) {
  for (char const* const bad : {"/nonexistent/recording", "/dev/null", "/proc/recording"}) {
    expect_good_child([bad] {
      open_test_page();
      EXPECT_FALSE(start({.file = bad, .max_bytes = 0, .tool_version = "test"}));
      note_if_on(taken(512));
      note(taken(512));
      finish();
      EXPECT_NE(std::string(stats::current_page()->fixed.head.recording_stopped), "");
    });
  }
}

TEST_F(recorder, a_forked_child_leaves_the_recording_alone) {
  expect_good_child([this] {
    start_here();
    note(taken(512));
    pid_t const child = ::fork();
    if (child == 0) {
      forget_in_child();
      note_if_on(taken(1024));
      note(taken(1024));
      finish();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    note(taken(2048));
    finish();
  });
  result const now = read();
  EXPECT_EQ(now.state, end_state::complete);
  EXPECT_EQ(now.events, 2u);
  EXPECT_TRUE(now.faults.empty());
}

// The head is written on the program's own thread.
TEST_F(recorder, a_file_that_may_hold_nothing_is_none) {
  expect_good_child([this] {
    open_test_page();
    ::signal(SIGXFSZ, SIG_DFL);
    rlimit const limit{1024, 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_FALSE(start({.file = path(), .max_bytes = 0, .tool_version = "test"}));
    EXPECT_NE(std::string(stats::current_page()->fixed.head.recording_stopped).find("ulimit"),
              std::string::npos);
  });
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// A thread that was cancelled between its stamp and its event, left by longjmp, or stopped by a debugger.
TEST_F(recorder, a_thread_that_does_not_get_on_holds_up_nobody) {
  expect_good_child([this] {
    start_here();
    area& shared = *recording::recorder.load()->area.get();
    std::thread([] { note(taken(1 << 30)); }).join();
    note(taken(512));
    auto const mine = static_cast<std::uint32_t>(::gettid());
    for (std::uint32_t i = 0; i < shared.head.rings_used; ++i)
      shared.rings[i].busy = shared.rings[i].owner == mine ? 0 : 1;
    for (std::uint64_t i = 2; i <= 300'000; ++i) note(taken(i * 512));
    EXPECT_TRUE(is_on());
    for (int i = 0; i < 200 && recording::recorder.load()->frames.written() < 3; ++i) ::usleep(10'000);
    EXPECT_GE(recording::recorder.load()->frames.written(), 3u);
    finish();
  });
  result const now = read();
  EXPECT_EQ(now.state, end_state::complete);
  EXPECT_EQ(now.events, 300'001u);
}

TEST_F(recorder, a_file_that_was_removed_is_said_to_be_gone) {
  expect_good_child([this] {
    start_here();
    note(taken(512));
    std::filesystem::remove(path());
    for (std::uint64_t i = 2; i <= 20'000; ++i) note(taken(i * 512));
    finish();
    EXPECT_EQ(std::string(stats::current_page()->fixed.head.recording_stopped), "its file is gone");
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/recordings"));
  });
}

// Moved, as by a program that tidies up its folder: it is the same file.
TEST_F(recorder, a_file_may_get_another_name) {
  expect_good_child([this] {
    start_here();
    note(taken(512));
    std::filesystem::rename(path(), path() + ".moved");
    note(taken(1024));
    finish();
  });
  std::filesystem::rename(path() + ".moved", path());
  EXPECT_EQ(read().events, 2u);
}

// An exec that failed, then a kill: what came between is not passed over in silence.
TEST_F(recorder, is_open_again_behind_a_flush) {
  in_child([this] {
    start_here();
    note(taken(512));
    flush();
    note(taken(1024));
    ::usleep(900'000);
    note(taken(2048));
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(read().state, end_state::open);
  EXPECT_EQ(recover(path()).what, recovery::no_buffers);
  EXPECT_EQ(read().events, 2u);
}

// As before an exec that fails.
TEST_F(recorder, goes_on_behind_a_flush) {
  expect_good_child([this] {
    start_here();
    note(taken(512));
    flush();
    note(taken(1024));
    flush();
    note(given(512));
    finish();
  });
  result const now = read();
  EXPECT_TRUE(now.faults.empty());
  EXPECT_EQ(now.events, 3u);
  EXPECT_EQ(now.live, 1u);
}

}  // namespace
}  // namespace gpumem::recording
