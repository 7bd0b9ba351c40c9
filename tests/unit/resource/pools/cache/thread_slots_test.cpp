// Magazines of threads: each thread its own, given on when the thread ends; indices last for any number of
// contexts.
#include "core/resource/pools/cache/thread_slots.hpp"

#include <thread>

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

using thread_slots_test = resource_fixture;

TEST_F(thread_slots_test, the_next_thread_finds_what_an_ended_one_freed) {
  pool& p = make_pool();
  space::handle freed = space::none;
  std::jthread([&] {
    freed = get(p, 1000);
    give(p, freed);
  }).join();
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  int const calls = driver.calls_in_all();
  space::handle found = space::none;
  std::jthread([&] { found = get(p, 1000); }).join();
  EXPECT_EQ(found, freed);
  EXPECT_EQ(driver.calls_in_all(), calls);
}

TEST_F(thread_slots_test, a_block_freed_by_another_thread_is_not_lost) {
  driver.manual_events(false);
  driver.set_capacity(2 * mib);
  pool& p = make_pool();
  space::handle const a = get(p, 2 * mib);
  std::jthread other([&] {
    give(p, a);
    // This thread lives on, its magazine holds the block; the slow path of another one empties it.
    std::jthread([&] { EXPECT_NE(get(p, 2 * mib), space::none); }).join();
  });
}

// A program may make and reset contexts for days; one suballocator serves them all.
TEST_F(thread_slots_test, contexts_that_come_and_go_use_the_same_magazines) {
  pool& p = make_pool();
  for (int context = 0; context < 200; ++context) {
    space::handle const a = get(p, 1000);
    give(p, a);
    here->epochs.synchronize_done(here->epochs.synchronize_begins());
    std::uint64_t const hits = rung(&stats::device_counters::rung_cached);
    EXPECT_EQ(get(p, 1000), a) << "context " << context;
    ASSERT_EQ(rung(&stats::device_counters::rung_cached), hits + 1)
        << "context " << context << " has no magazine";
    here->epochs.abandon();
    p.forget();
    EXPECT_EQ(p.measure().idle, 0u);
    here->epochs.begin_again(tests::first_context);
    p.begin_again();
  }
}

TEST_F(thread_slots_test, a_forked_child_drops_what_it_had) {
  pool& p = make_pool();
  get(p, 1000);
  thread_slots* const before = own_slots;
  ASSERT_NE(before, nullptr);
  drop_thread();
  EXPECT_EQ(own_slots, &no_slots);
  static std::vector<thread_slots*> left_behind;
  left_behind.push_back(before);
  EXPECT_NE(get(p, 1000), space::none);
}

}  // namespace
}  // namespace gpumem::resource
