// Frees that keep the GPU's pace: what they wait for, how long, and when they are told no more. Over the
// scripted driver.
#include "core/stream_order/free_pace.hpp"

#include "tests/unit/stream_order/fixture.hpp"

namespace gpumem::stream_order {
namespace {

struct free_pace_test : epochs_fixture {
  static constexpr std::uint64_t mib = 1ull << 20;

  // So many frees; true while they are wanted.
  bool free_blocks(int count, std::uint64_t bytes) {
    bool wanted = true;
    for (int i = 0; i < count; ++i) wanted = when->pace.note(bytes) != free_pace::noted::off;
    return wanted;
  }
};

TEST_F(free_pace_test, nothing_is_asked_before_it_begins) {
  EXPECT_FALSE(free_blocks(1, 1024 * mib));
  EXPECT_EQ(driver.calls_in_all(), 0);
}

TEST_F(free_pace_test, waits_for_the_work_before_the_last_mark_and_no_more) {
  when->pace.begin(512 * mib, false);
  epoch_id const first = when->open();
  EXPECT_TRUE(free_blocks(8, 32 * mib));
  EXPECT_EQ(records(), 1) << "the first mark: nothing was freed before";
  EXPECT_FALSE(when->is_done(first));
  epoch_id const second = when->open();
  int questions = 0;
  driver.at_query([&] {
    if (++questions == 5) driver.finish_oldest();
  });
  EXPECT_TRUE(free_blocks(7, 32 * mib));
  EXPECT_EQ(questions, 0) << "224 MiB since the mark";
  EXPECT_TRUE(free_blocks(1, 32 * mib));
  EXPECT_GE(questions, 5);
  EXPECT_TRUE(when->is_done(first));
  EXPECT_FALSE(when->is_done(second)) << "the GPU has that left to do";
  EXPECT_EQ(records(), 2);
}

// At a pool's bound the next request waits for what is ahead.
TEST_F(free_pace_test, or_by_bytes_alone) {
  when->pace.begin(512 * mib, true);
  EXPECT_TRUE(free_blocks(3, 64 * mib));
  EXPECT_EQ(records(), 0);
  EXPECT_TRUE(free_blocks(1, 64 * mib));
  EXPECT_EQ(records(), 1);
}

// The GPU has little to do with each of many small blocks, and much with a very large one.
TEST_F(free_pace_test, a_step_has_eight_blocks_unless_they_are_very_large) {
  when->pace.begin(512 * mib, false);
  EXPECT_TRUE(free_blocks(7, 64 * mib));
  EXPECT_EQ(records(), 0);
  EXPECT_TRUE(free_blocks(1, 64 * mib));
  EXPECT_EQ(records(), 1);
  driver.finish_all();
  EXPECT_TRUE(free_blocks(3, 300 * mib));
  EXPECT_EQ(records(), 1);
  EXPECT_TRUE(free_blocks(1, 300 * mib));
  EXPECT_EQ(records(), 2);
  driver.finish_all();
  EXPECT_TRUE(free_blocks(100'000, 1 * mib));
  EXPECT_EQ(records(), 2) << "small blocks are not counted";
}

// A kernel may be waiting for what this thread does next.
TEST_F(free_pace_test, a_kernel_that_never_ends_holds_a_free_up_for_a_while) {
  when->pace.begin(512 * mib, false);
  epoch_id const first = when->open();
  EXPECT_TRUE(free_blocks(8, 64 * mib));
  EXPECT_TRUE(free_blocks(8, 64 * mib)) << "returns";
  EXPECT_FALSE(when->is_done(first));
}

TEST_F(free_pace_test, ends_where_the_gpu_keeps_up_and_begins_anew) {
  driver.manual_events(false);
  when->pace.begin(512 * mib, false);
  EXPECT_TRUE(free_blocks(15 * 8, 64 * mib));
  EXPECT_FALSE(free_blocks(8, 64 * mib)) << "the sixteenth step";
  int const before = records();
  EXPECT_FALSE(free_blocks(100, 64 * mib));
  EXPECT_EQ(records(), before);
  when->pace.begin(512 * mib, false);
  EXPECT_TRUE(free_blocks(8, 64 * mib));
  EXPECT_EQ(records(), before + 1);
}

TEST_F(free_pace_test, a_gpu_that_falls_behind_once_keeps_it_on) {
  driver.manual_events(false);
  when->pace.begin(512 * mib, false);
  EXPECT_TRUE(free_blocks(15 * 8, 64 * mib));
  driver.manual_events(true);
  EXPECT_TRUE(free_blocks(8, 64 * mib));
  driver.finish_all();
  driver.manual_events(false);
  EXPECT_TRUE(free_blocks(15 * 8, 64 * mib));
}

}  // namespace
}  // namespace gpumem::stream_order
