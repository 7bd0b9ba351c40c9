// Memory that a stream freed is done where that stream has no work, whatever others have to do: work that
// does not end, and that may wait for this very request, keeps it from nobody.
#include "core/stream_order/streams.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct idle_streams : resource_fixture {
  static constexpr stream_order::slot freeing = 1, asking = 2;
  stream_order::streams streams;

  void SetUp() override {
    resource_fixture::SetUp();
    for (stream_order::slot s : {freeing, asking}) ASSERT_EQ(streams.slot_of(100 + s, tests::stream(s)), s);
    here->home.streams = &streams;
    driver.manual_events(true);  // other streams have work that does not end
  }
  // All that the pool may have, freed in the order of one stream.
  pool& freed_at_its_bound() {
    pool& p = make_pool({.maximum_pool_size = 64 * mib});
    space::handle const all = get(p, 64 * mib, freeing);
    give(p, all, freeing);
    return p;
  }
};

TEST_F(idle_streams, what_they_freed_serves_another_stream_at_once) {
  pool& p = freed_at_its_bound();
  driver.idle_streams = {tests::stream(freeing)};
  EXPECT_NE(get(p, 48 * mib, asking), space::none);
  EXPECT_TRUE(driver.waits.empty()) << "there is nothing to wait for";
}

TEST_F(idle_streams, what_they_freed_serves_a_request_without_a_stream) {
  pool& p = freed_at_its_bound();
  driver.idle_streams = {tests::stream(freeing)};
  EXPECT_NE(get(p, 48 * mib), space::none);
}

// The legacy stream's work is work that it waits for, and that no question about it tells.
TEST_F(idle_streams, what_a_blocking_one_freed_waits_for_the_legacy_stream) {
  pool& p = freed_at_its_bound();
  driver.blocking_streams = {tests::stream(freeing)};
  driver.idle_streams = {tests::stream(freeing)};
  EXPECT_NE(get(p, 24 * mib, asking), space::none);
  EXPECT_EQ(driver.waits.size(), 1u);
  driver.idle_streams.insert(CU_STREAM_LEGACY);
  EXPECT_NE(get(p, 24 * mib), space::none);
  EXPECT_EQ(driver.waits.size(), 1u) << "there is nothing more to wait for";
}

TEST_F(idle_streams, the_device_waits_for_the_stream_that_freed_alone) {
  pool& p = freed_at_its_bound();
  EXPECT_NE(get(p, 48 * mib, asking), space::none);
  ASSERT_EQ(driver.waits.size(), 1u);
  EXPECT_EQ(driver.waits[0].first, tests::stream(asking));
  EXPECT_EQ(driver.calls("cuEventRecord"), 1);
  driver.finish_all();  // what was asked of all streams before is not what is waited for
  EXPECT_FALSE(driver.events[driver.waits[0].second]);
}

TEST_F(idle_streams, nothing_is_asked_of_them_while_one_captures) {
  pool& p = freed_at_its_bound();
  driver.idle_streams = {tests::stream(freeing)};
  here->epochs.capture_begins({.stream = tests::stream(asking)});
  EXPECT_EQ(refusal(p, 48 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.calls("cuStreamQuery"), 0);
  here->epochs.capture_ended(tests::stream(asking));
}

TEST_F(idle_streams, a_default_stream_is_not_known_by_its_handle) {
  stream_order::slot const unnamed = streams.slot_of(200);
  EXPECT_EQ(streams.handle_of(unnamed), nullptr);
  EXPECT_EQ(streams.handle_of(freeing), tests::stream(freeing));
  streams.forget(tests::stream(freeing));
  EXPECT_EQ(streams.handle_of(freeing), nullptr);
}

// Near the bound, where an event of later would be of later work too.
TEST_F(idle_streams, a_large_free_on_one_that_cannot_be_asked_has_an_event_at_once) {
  stream_order::slot const unnamed = streams.slot_of(200);
  pool& p = make_pool({.maximum_pool_size = 128 * mib});
  space::handle const large = get(p, 96 * mib, unnamed);
  give(p, large, unnamed);
  EXPECT_EQ(driver.calls("cuCtxRecordEvent"), 1);
  driver.finish_all();
  EXPECT_NE(get(p, 96 * mib, asking), space::none);
  EXPECT_TRUE(driver.waits.empty());
}

TEST_F(idle_streams, one_that_can_be_asked_needs_no_event) {
  pool& p = make_pool({.maximum_pool_size = 128 * mib});
  space::handle const large = get(p, 96 * mib, freeing);
  give(p, large, freeing);
  EXPECT_EQ(driver.calls("cuCtxRecordEvent"), 0);
}

// A driver that refused gets what is done without a wait for work that came since.
TEST_F(idle_streams, what_is_done_goes_back_beside_work) {
  pool& p = make_pool();
  space::handle const first = get(p, 64 * mib), second = get(p, 64 * mib);
  give(p, first);
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  give(p, second);
  EXPECT_EQ(p.give_back(give_back_scope::done), 64 * mib) << "of the other the work is not known to be done";
}

}  // namespace
}  // namespace gpumem::resource
