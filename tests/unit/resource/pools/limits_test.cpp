// Out of memory, maxima, thresholds and failures of the source: what is refused, and that nothing else
// changes.
#include "core/upstream/vmm.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

// Events are done when asked for: out of memory waits for all of them.
struct limits : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
  }
};

TEST_F(limits, out_of_memory_is_code_2_and_leaves_everything_as_it_was) {
  driver.set_capacity(4 * mib);
  pool& p = make_pool();
  space::handle const a = get(p, 1 * mib);
  std::uint64_t const used = driver.used();
  EXPECT_EQ(refusal(p, 64 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.used(), used);
  EXPECT_EQ(block(a).now.load(), space::state::live);
  EXPECT_EQ(here->where.map.find(block(a).begin()), a);
  EXPECT_EQ(p.measure().idle, used - 1 * mib);
  EXPECT_EQ(refusal(p, 1 * mib), CUDA_SUCCESS);
}

TEST_F(limits, a_refusal_that_is_sure_to_come_again_is_not_asked_for) {
  driver.set_capacity(640 * mib);
  pool& p = make_pool();
  space::handle const a = get(p, 320 * mib);
  EXPECT_EQ(refusal(p, 400 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), 2) << "not again for the rung after the trim";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(refusal(p, 400 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), 2);
  EXPECT_EQ(refusal(p, 300 * mib), CUDA_SUCCESS) << "there is room for it";
  give(p, a);
  EXPECT_EQ(refusal(p, 400 * mib), CUDA_ERROR_OUT_OF_MEMORY) << "still";
  driver.set_capacity(1280 * mib);
  EXPECT_EQ(refusal(p, 400 * mib), CUDA_SUCCESS) << "another process has given memory back";
}

// A refusal takes an H100 half a millisecond, and pages are 2 MiB.
TEST_F(limits, what_needs_as_many_pages_is_not_asked_for_when_it_was_refused) {
  driver.set_capacity(1000 * mib);  // more than in other tests, so that nothing is known of it
  pool& p = make_pool();
  get(p, 320 * mib);
  EXPECT_EQ(refusal(p, 799 * mib + 512), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.calls("cuMemAlloc_v2"), 2) << "800 MiB, and not once more for a little less";
  driver.set_capacity(322 * mib);
  driver.fail("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY, 1);
  EXPECT_EQ(refusal(p, 100 * kib), CUDA_SUCCESS) << "a part of a page may be free where no page is";
}

// Segments that go back in vain come again with the next request, and what that costs is their bytes.
TEST_F(limits, what_all_that_is_empty_cannot_serve_gives_nothing_back) {
  for (bool const alone : {true, false}) {
    driver.reset();
    driver.set_capacity(1000 * mib);
    pool& p = make_pool();
    space::handle const first = get(p, 320 * mib);
    get(p, 320 * mib);
    pool& other = make_pool();
    if (!alone) get(other, 2 * mib);
    EXPECT_EQ(refusal(p, 400 * mib), CUDA_ERROR_OUT_OF_MEMORY);
    give(p, first);
    EXPECT_EQ(refusal(p, 800 * mib), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(driver.frees(), alone ? 0 : 1) << "others might give back more";
    EXPECT_EQ(refusal(p, 600 * mib), CUDA_SUCCESS) << "320 MiB are free, 320 come back";
    here->epochs.synchronize_done(here->epochs.synchronize_begins());
    p.forget();
    other.forget();
  }
}

TEST_F(limits, sizes_beyond_any_device) {
  pool& p = make_pool();
  direct& d = make<direct>(here->cuda);
  for (std::uint64_t const bytes : {1ull << 42, 1ull << 63, ~0ull, ~0ull - 510, ~0ull - 511}) {
    EXPECT_EQ(refusal(p, bytes), CUDA_ERROR_OUT_OF_MEMORY) << bytes;
    EXPECT_EQ(refusal(d, bytes), CUDA_ERROR_OUT_OF_MEMORY) << bytes;
  }
  EXPECT_EQ(driver.used(), 0u);
}

TEST_F(limits, the_drivers_own_code_is_kept) {
  pool& p = make_pool();
  driver.fail("cuMemAlloc_v2", CUDA_ERROR_ILLEGAL_ADDRESS, 1000);
  EXPECT_EQ(refusal(p, 1 * mib), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(limits, a_growth_step_that_does_not_fit_is_tried_again_with_the_exact_size) {
  driver.set_capacity(12 * mib);
  pool& p = make_pool({.growth = 64 * mib});
  EXPECT_EQ(refusal(p, 5 * mib + 512), CUDA_SUCCESS);
  EXPECT_EQ(driver.used(), 5 * mib + 512);
  EXPECT_RUNG(rung_grown, 1);
}

TEST_F(limits, a_maximum_is_reached_and_never_passed) {
  pool& p = make_pool({.maximum_pool_size = 10 * mib, .growth = 4 * mib});
  std::vector<space::handle> all;
  for (int i = 0; i < 10; ++i) all.push_back(get(p, 1 * mib));
  EXPECT_EQ(driver.used(), 10 * mib);
  EXPECT_EQ(refusal(p, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(refusal(p, 11 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver.used(), 10 * mib);
  give(p, all.back());
  EXPECT_EQ(refusal(p, 1 * mib), CUDA_SUCCESS);
}

std::pair<driver::refused_by, std::string> reason(resource& from, std::uint64_t bytes) {
  try {
    from.allocate({.bytes = bytes});
    return {};
  } catch (driver::allocation_failed const& failed) {
    return {failed.kind(), failed.what()};
  }
}

TEST_F(limits, a_refusal_names_the_pool_its_maximum_and_the_wish) {
  pool& p = make_pool({.maximum_pool_size = 10 * mib, .name = "small"});
  get(p, 8 * mib);
  auto const [by_maximum, full] = reason(p, 3 * mib);
  EXPECT_EQ(by_maximum, driver::refused_by::pool_maximum);
  EXPECT_EQ(full, "pool \"small\": maximum_pool_size 10.00 MiB, reserved 8.00 MiB, asked 3.00 MiB");
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = 1 * mib, .name = "blocks"}, here->cuda);
  auto const [by_block, large] = reason(f, 2 * mib);
  EXPECT_EQ(by_block, driver::refused_by::largest_block);
  EXPECT_EQ(large, "fixed_size \"blocks\": its largest block is 1.00 MiB, asked 2.00 MiB");
  driver.set_capacity(8 * mib);
  auto const [by_driver, refused] = reason(make_pool(), 3 * mib);
  EXPECT_EQ(by_driver, driver::refused_by::driver);
  EXPECT_EQ(refused, "cuda: the driver refused 3.00 MiB");
}

// Which the driver serves then, as of managed memory there may be more than there is of any device.
TEST_F(limits, more_than_the_tables_can_say_is_nobodys_limit_but_a_maximum) {
  constexpr std::uint64_t tib = 1024 * gib;
  EXPECT_EQ(reason(make_pool(), 2 * tib).first, driver::refused_by::largest_block);
  here->home.kind = driver::memory_kind::managed;
  EXPECT_EQ(reason(make_pool(), 2 * tib).first, driver::refused_by::tables);
  EXPECT_EQ(reason(make_pool({.maximum_pool_size = 3 * tib}), 2 * tib).first, driver::refused_by::tables);
  EXPECT_EQ(reason(make_pool({.maximum_pool_size = 4 * gib}), 2 * tib).first,
            driver::refused_by::largest_block);
}

TEST_F(limits, a_pool_over_pages_names_its_maximum_or_the_driver) {
  auto& pages = below<upstream::vmm>(here->home, 0u, 0u);
  pool& p = make<pool>(pool_options{.maximum_pool_size = 8 * mib, .name = "paged"}, pages);
  get(p, 6 * mib);
  auto const [by_maximum, full] = reason(p, 4 * mib);
  EXPECT_EQ(by_maximum, driver::refused_by::pool_maximum);
  EXPECT_EQ(full, "pool \"paged\": maximum_pool_size 8.00 MiB, reserved 6.00 MiB, asked 4.00 MiB")
      << "what is refused takes nothing";
  driver.set_capacity(8 * mib);
  auto const [by_driver, refused] = reason(make<pool>(pool_options{}, pages), 12 * mib);
  EXPECT_EQ(by_driver, driver::refused_by::driver);
  EXPECT_EQ(refused, "driver: no pages for 12.00 MiB");
}

TEST_F(limits, a_single_allocation_served_after_others_gave_back_is_counted) {
  static pool* idle = nullptr;
  here->home.relieve = [](CUcontext, give_back_scope scope) { return idle->give_back(scope); };
  idle = &make_pool();
  direct& single = make<direct>(here->cuda);
  driver.set_capacity(8 * mib);
  give(*idle, get(*idle, 6 * mib));
  EXPECT_EQ(refusal(single, 4 * mib), CUDA_SUCCESS);
  EXPECT_RUNG(rung_trimmed, 1);
  EXPECT_EQ(refusal(single, 8 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_RUNG(rung_trimmed, 1);
}

TEST_F(limits, an_initial_size_is_reserved_at_once_or_refused) {
  pool& p = make_pool({.initial_pool_size = 6 * mib});
  p.prepare();
  EXPECT_EQ(driver.used(), 6 * mib);
  get(p, 6 * mib);
  EXPECT_EQ(driver.allocations(), 1u);
  driver.set_capacity(8 * mib);
  pool& q = make_pool({.initial_pool_size = 6 * mib});
  EXPECT_THROW(q.prepare(), driver::allocation_failed);
}

TEST_F(limits, idle_memory_above_the_threshold_goes_back) {
  pool& p = make_pool({.growth = 2 * mib, .release_threshold = 8 * mib});
  std::vector<space::handle> all;
  for (int i = 0; i < 600; ++i) all.push_back(get(p, 2 * mib));
  EXPECT_EQ(driver.used(), 1200 * mib);
  for (int i = 0; i < 300; ++i) give(p, all[static_cast<std::size_t>(i)]);
  here->epochs.collect(here->epochs.open());
  for (int i = 300; i < 600; ++i) give(p, all[static_cast<std::size_t>(i)]);
  EXPECT_LT(driver.used(), 1200 * mib);
  p.give_back(give_back_scope::all);
  EXPECT_EQ(driver.used(), 0u);
}

TEST_F(limits, give_back_returns_every_empty_segment_and_no_other) {
  pool& p = make_pool({.growth = 2 * mib});
  space::handle const kept_one = get(p, 2 * mib), other = get(p, 2 * mib);
  give(p, other);
  EXPECT_EQ(p.give_back(give_back_scope::all), 2 * mib);
  EXPECT_EQ(driver.used(), 2 * mib);
  EXPECT_EQ(p.give_back(give_back_scope::all), 0u);
  give(p, kept_one);
  EXPECT_EQ(p.give_back(give_back_scope::all), 2 * mib);
  EXPECT_EQ(driver.used(), 0u);
}

TEST_F(limits, the_reserved_gauge_follows_the_driver) {
  std::uint64_t const before = stats::get(stats::gauges(0).reserved);
  pool& p = make_pool();
  space::handle const a = get(p, 5 * mib);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved) - before, driver.used());
  give(p, a);
  p.give_back(give_back_scope::all);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), before);
  get(p, 5 * mib);
  here->epochs.abandon();
  p.forget();
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), before);
}

}  // namespace
}  // namespace gpumem::resource
