// Programs that run ahead of the GPU with blocks of one size: they get as many as keep it at work, at once
// and no more, and wait where the GPU has work left. Over the scripted driver, whose events are done when the
// test says so.
#include "tests/unit/own_clock/own_clock.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct ahead : resource_fixture {
  // A launch with a temporary, where what was launched `depth` events ago is done.
  void launches(pool& p, std::uint64_t size, int count, int depth) {
    for (int i = 0; i < count; ++i) {
      for (; recorded > depth; --recorded) driver.finish_oldest();
      give(p, get(p, size));
    }
  }
  int recorded = 0;  // events that are not done

  void SetUp() override {
    resource_fixture::SetUp();
    driver.at_record([this] { ++recorded; });
  }
  void all_done() {
    driver.finish_all();
    recorded = 0;
    here->epochs.synchronize_done(here->epochs.synchronize_begins());
  }
};

TEST_F(ahead, an_event_every_few_launches_is_worth_as_many_blocks_as_keep_the_gpu_at_work) {
  pool& p = make_pool();
  launches(p, 8 * mib, 12, 1);
  EXPECT_LE(p.reserved(), 32 * mib) << "not yet a row";
  launches(p, 8 * mib, 200, 1);
  EXPECT_EQ(p.reserved(), 128 * mib);
  int const before = driver.calls("cuCtxRecordEvent");
  launches(p, 8 * mib, 160, 1);
  EXPECT_LE(driver.calls("cuCtxRecordEvent") - before, 40) << "160 with one block, two and four";
  EXPECT_EQ(p.reserved(), 128 * mib);
}

TEST_F(ahead, blocks_of_small_sizes_have_4_mib) {
  pool& p = make_pool();
  launches(p, 64 * kib, 2000, 1);
  EXPECT_LE(p.reserved(), 6 * mib);
  int const before = driver.calls("cuCtxRecordEvent");
  launches(p, 64 * kib, 640, 1);
  EXPECT_LE(driver.calls("cuCtxRecordEvent") - before, 32);
}

TEST_F(ahead, of_large_blocks_a_few_keep_the_gpu_at_work) {
  pool& p = make_pool();
  launches(p, 512 * mib, 40, 0);
  EXPECT_LE(p.reserved(), 1024 * mib);
}

TEST_F(ahead, not_where_work_is_done_at_once) {
  driver.manual_events(false);
  pool& p = make_pool();
  tests::own_clock clock;
  for (int i = 0; i < 200; ++i) {
    give(p, get(p, 64 * mib));
    clock.pass(100'000);  // or it would be a loop that does nothing else (rotation_test)
  }
  EXPECT_LE(p.reserved(), 128 * mib);
}

TEST_F(ahead, not_where_other_sizes_take_events_between) {
  pool& p = make_pool();
  for (int i = 0; i < 400; ++i)
    launches(p, 4 * mib + static_cast<std::uint64_t>(i * 7 % 16) * 512 * kib, 1, 1);
  EXPECT_LE(p.reserved(), 160 * mib) << "as without this rule";
}

TEST_F(ahead, where_the_driver_has_no_more_the_program_does_not_notice) {
  pool& p = make_pool();
  launches(p, 8 * mib, 2, 1);
  driver.set_capacity(driver.used() + 8 * mib);
  launches(p, 8 * mib, 200, 1);  // each request is served
  EXPECT_LE(p.reserved(), 32 * mib);
}

TEST_F(ahead, not_where_memory_is_spared) {
  pool& p = make<pool>(pool_options{.sparing_beyond = 0}, here->cuda);
  driver.manual_events(false);
  launches(p, 8 * mib, 200, 1);
  EXPECT_LE(p.reserved(), 16 * mib);
}

TEST_F(ahead, a_request_waits_for_the_older_blocks_while_the_others_keep_the_gpu_at_work) {
  tests::own_clock const clock(1'000);  // it waits for a time, which four looks must not take
  pool& p = make_pool();
  std::vector<space::handle> all;
  for (int i = 0; i < 16; ++i) all.push_back(get(p, 8 * mib));
  for (int i = 0; i < 8; ++i) give(p, all[i]);
  here->epochs.collect(here->epochs.open());  // an event for these, and another one for the rest
  for (int i = 8; i < 16; ++i) give(p, all[i]);
  int looks = 0;
  driver.at_query([&] {
    if (++looks == 4) driver.finish_oldest();
  });
  std::uint64_t const before = p.reserved();
  EXPECT_EQ(get(p, 8 * mib), all[0]);
  EXPECT_GE(looks, 4) << "it waited";
  for (int i = 1; i < 8; ++i) EXPECT_EQ(get(p, 8 * mib), all[i]) << "served by the magazine";
  EXPECT_EQ(p.reserved(), before);
  all_done();
}

TEST_F(ahead, of_few_blocks_none_is_waited_for) {
  pool& p = make_pool({.growth = 2 * mib});
  std::vector<space::handle> all;
  for (int i = 0; i < 4; ++i) all.push_back(get(p, 8 * mib));
  for (int i = 0; i < 2; ++i) give(p, all[i]);
  here->epochs.collect(here->epochs.open());
  for (int i = 2; i < 4; ++i) give(p, all[i]);
  EXPECT_EQ(all[0] == get(p, 8 * mib), false);
  all_done();
}

}  // namespace
}  // namespace gpumem::resource
