// Frees in the order of a stream of another context: their epochs are done after that stream's work as well,
// whoever says that this context's is over.
#include "tests/unit/stream_order/fixture.hpp"

namespace gpumem::stream_order {
namespace {

CUcontext const second_context = reinterpret_cast<CUcontext>(2);

struct foreign_work_test : epochs_fixture {
  std::unique_ptr<epochs> other;
  CUstream const theirs = reinterpret_cast<CUstream>(0x7000);

  void SetUp() override {
    epochs_fixture::SetUp();
    driver.set_context(second_context, 1);
    other = std::make_unique<epochs>(second_context, 1);
  }
  void TearDown() override {
    epochs_fixture::TearDown();
    other->abandon();
  }
  int events_left() { return driver.calls("cuEventCreate") - driver.calls("cuEventDestroy_v2"); }
};

TEST_F(foreign_work_test, a_free_is_done_after_the_other_contexts_work) {
  epoch_id const before = when->open();
  when->collect(before);
  ASSERT_TRUE(when->await(*other, theirs));
  EXPECT_TRUE(when->awaits_others());
  epoch_id const freed = when->open();
  when->collect(freed);
  driver.finish_all();
  when->poll_now();
  EXPECT_TRUE(when->is_done(before)) << "what was freed before waits for nobody else";
  EXPECT_FALSE(when->is_done(freed));
  driver.finish_streams();
  EXPECT_TRUE(when->poll_now());
  EXPECT_TRUE(when->is_done(freed));
  EXPECT_FALSE(when->awaits_others());
}

TEST_F(foreign_work_test, a_synchronisation_of_this_context_says_nothing_of_it) {
  ASSERT_TRUE(when->await(*other, theirs));
  epoch_id const freed = when->open();
  ASSERT_EQ(when->synchronize(), CUDA_SUCCESS);
  EXPECT_FALSE(when->is_done(freed));
  driver.finish_streams();
  ASSERT_EQ(when->synchronize(), CUDA_SUCCESS);
  EXPECT_TRUE(when->is_done(freed));
}

TEST_F(foreign_work_test, nobody_asks_for_more_events_while_it_goes_on) {
  ASSERT_TRUE(when->await(*other, theirs));
  epoch_id const freed = when->open();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(when->collect(freed));
    driver.finish_all();
  }
  EXPECT_EQ(records(), 1);
}

TEST_F(foreign_work_test, no_stream_is_told_to_wait_for_half_of_it) {
  ASSERT_TRUE(when->await(*other, theirs));
  EXPECT_FALSE(when->wait_on_device(reinterpret_cast<CUstream>(0x8000), when->open()));
  driver.finish_streams();
  ASSERT_TRUE(when->await(*other, theirs));
  driver.finish_streams();
  EXPECT_TRUE(when->wait_on_device(reinterpret_cast<CUstream>(0x8000), when->open()));
}

TEST_F(foreign_work_test, it_ends_with_its_context) {
  ASSERT_TRUE(when->await(*other, theirs));
  epoch_id const freed = when->open();
  when->collect(freed);
  driver.finish_all();
  context_visits::end_begins(second_context, context_visits::patience::minute);
  when->poll_now();
  EXPECT_FALSE(when->is_done(freed)) << "it may be ending, or not";
  other->abandon();
  context_visits::end_over(second_context);
  when->poll_now();
  EXPECT_TRUE(when->is_done(freed));
}

TEST_F(foreign_work_test, a_lost_context_is_waited_for_no_longer) {
  ASSERT_TRUE(when->await(*other, theirs));
  epoch_id const freed = when->open();
  when->collect(freed);
  driver.finish_all();
  when->poll_now();
  EXPECT_FALSE(when->is_done(freed));
  // The second question of a look: the first is for this context's own event.
  int asked = 0;
  driver.at_query([&] {
    if (++asked == 1) driver.fail("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
  });
  when->poll_now();
  driver.at_query({});
  EXPECT_TRUE(when->is_done(freed));
  EXPECT_FALSE(when->broken()) << "the other one is";
}

TEST_F(foreign_work_test, what_the_driver_could_not_find_out_is_not_done) {
  ASSERT_TRUE(when->await(*other, theirs));
  epoch_id const freed = when->open();
  when->collect(freed);
  driver.finish_all();
  for (CUresult const code : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
    int asked = 0;
    driver.at_query([&] {
      if (++asked == 2) driver.fail("cuEventQuery", code);
    });
    when->poll_now();
    driver.at_query({});
    EXPECT_FALSE(when->is_done(freed));
  }
  driver.finish_streams();
  when->poll_now();
  EXPECT_TRUE(when->is_done(freed));
}

TEST_F(foreign_work_test, frees_of_one_epoch_share_an_event) {
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(when->await(*other, theirs));
  EXPECT_EQ(driver.calls("cuEventCreate"), 1);
  ASSERT_TRUE(when->await(*other, CU_STREAM_PER_THREAD));
  ASSERT_TRUE(when->await(*other, CU_STREAM_PER_THREAD));
  EXPECT_EQ(driver.calls("cuEventCreate"), 3) << "each thread has its own";
  driver.finish_streams();
  when->collect(when->open());
  driver.finish_all();
  when->poll_now();
  EXPECT_EQ(events_left(), 1) << "that of the epoch";
}

// However long a stream is at work, frees on it do not run out of events: the call would have to wait.
TEST_F(foreign_work_test, many_frees_on_a_stream_share_the_event_of_the_last) {
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(when->await(*other, theirs));
    when->move_on();
  }
  EXPECT_EQ(driver.calls("cuEventCreate"), 64);
  EXPECT_EQ(driver.calls("cuEventRecord"), 2000) << "the event is that of the last free";
  epoch_id const freed = when->open();
  when->collect(freed);
  driver.finish_all();
  when->poll_now();
  EXPECT_FALSE(when->is_done(freed));
  driver.finish_streams();
  when->poll_now();
  EXPECT_TRUE(when->is_done(freed));
}

TEST_F(foreign_work_test, what_cannot_be_had_is_said) {
  driver.fail("cuEventRecord", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_FALSE(when->await(*other, theirs));
  EXPECT_FALSE(when->awaits_others());
  EXPECT_EQ(events_left(), 0);
  int had = 0;
  for (std::uintptr_t i = 1; i <= 1100; ++i)
    had += when->await(*other, reinterpret_cast<CUstream>(i << 12)) ? 1 : 0;
  EXPECT_EQ(had, 1024);
  other->abandon();
  EXPECT_FALSE(when->await(*other, theirs));
}

}  // namespace
}  // namespace gpumem::stream_order
