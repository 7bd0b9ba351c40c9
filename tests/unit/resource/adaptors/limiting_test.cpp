// Budgets and the resource `limiting`, above a pool and below one: what is refused, exactly where, that
// nothing passes the limit however many ask at once, and that shares come back.
#include "core/resource/adaptors/limiting.hpp"

#include <barrier>
#include <thread>
#include <vector>

#include "core/upstream/known_refusals.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct limiting_fixture : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
  }
  void TearDown() override {
    resource_fixture::TearDown();
    budget::forget_all();
  }
  static budget& of(std::uint64_t limit, char const* name = "limiting", int device = 0) {
    return *budget::find_or_make({.name = name, .device = device, .limit = limit});
  }
  static std::string reason(resource& from, std::uint64_t bytes) {
    try {
      from.allocate({.bytes = bytes});
      return "served";
    } catch (driver::allocation_failed const& failed) {
      EXPECT_EQ(failed.code(), CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(failed.kind(), driver::refused_by::limit);
      return failed.what();
    }
  }
};

TEST_F(limiting_fixture, a_name_on_a_device_is_one_budget) {
  budget& one = of(4 * mib);
  EXPECT_EQ(&of(8 * mib), &one) << "the first sets the limit";
  EXPECT_EQ(one.limit(), 4 * mib);
  EXPECT_NE(&of(4 * mib, "limiting", 1), &one);
  EXPECT_NE(&of(4 * mib, "other"), &one);
  EXPECT_NE(budget::find_or_make({.name = "limiting", .limit = mib, .host = true}), &one);
}

TEST_F(limiting_fixture, below_a_pool_it_does_not_say_that_the_drivers_memory_decides) {
  driver.set_capacity(8 * mib);
  EXPECT_EQ(here->cuda.free_at_driver(), 8 * mib);
  EXPECT_EQ(below<limiting_source>(5u, here->cuda, of(4 * mib)).free_at_driver(), std::nullopt);
}

TEST_F(limiting_fixture, threads_together_never_exceed_it_and_reach_it) {
  budget& b = of(1000);
  std::atomic<std::uint64_t> held{0};
  std::atomic<bool> exceeded{false};
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 20'000; ++i) {
        std::uint64_t const bytes = 1 + (i * 7 + t) % 400;
        if (!b.take(bytes)) continue;
        if (held.fetch_add(bytes) + bytes > 1000) exceeded = true;
        held.fetch_sub(bytes);
        b.give(bytes);
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(b.left(), 1000u);
  EXPECT_TRUE(b.take(1000));
  EXPECT_FALSE(b.take(1));
  EXPECT_FALSE(b.take(~0ull));
}

TEST_F(limiting_fixture, above_a_pool_it_counts_blocks) {
  budget& b = of(4 * mib);
  limiting& l = make<limiting>(make_pool(), b);
  space::handle const first = get(l, 3 * mib);
  EXPECT_EQ(b.left(), 1 * mib);
  EXPECT_EQ(reason(l, 1 * mib + 1),
            "limiting \"limiting\": limit 4.00 MiB, in use 3.00 MiB, of it seen only "
            "0 B, asked 1.00 MiB");
  space::handle const second = get(l, 1 * mib);
  EXPECT_EQ(b.left(), 0u);
  EXPECT_EQ(refusal(l, 1), CUDA_ERROR_OUT_OF_MEMORY);
  give(l, first);
  EXPECT_EQ(b.left(), 3 * mib);
  EXPECT_EQ(refusal(l, 3 * mib), CUDA_SUCCESS) << "a free makes room at once, whatever the pool keeps";
  give(l, second);
}

TEST_F(limiting_fixture, blocks_count_as_large_as_they_are) {
  budget& b = of(3 * mib);
  limiting& l = make<limiting>(make<fixed_size>(fixed_size_options{.block_size = mib}, here->cuda), b);
  space::handle const first = get(l, 100);
  EXPECT_EQ(b.left(), 2 * mib);
  get(l, 100);
  EXPECT_TRUE(b.take(512));
  EXPECT_EQ(refusal(l, 100), CUDA_ERROR_OUT_OF_MEMORY) << "100 B would fit, the block does not";
  EXPECT_EQ(b.left(), 1 * mib - 512);
  give(l, first);
  EXPECT_EQ(b.left(), 2 * mib - 512);
}

TEST_F(limiting_fixture, what_is_below_keeps_its_code_and_the_budget_its_bytes) {
  budget& b = of(64 * mib);
  limiting& l = make<limiting>(make_pool(), b);
  driver.fail("cuMemAlloc_v2", CUDA_ERROR_ILLEGAL_ADDRESS, 1000);
  EXPECT_EQ(refusal(l, mib), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(b.left(), 64 * mib);
}

TEST_F(limiting_fixture, a_context_that_goes_gives_its_share_back) {
  budget& b = of(8 * mib);
  limiting& above = make<limiting>(make_pool(), b);
  auto& source = below<limiting_source>(5u, here->cuda, b);
  pool& over = make<pool>(pool_options{}, source);
  get(above, 2 * mib);
  std::thread([&] { get(above, 1 * mib); }).join();
  get(over, 4 * mib);
  EXPECT_EQ(b.left(), 1 * mib);
  end_context();
  EXPECT_EQ(b.left(), 8 * mib);
}

TEST_F(limiting_fixture, a_block_that_is_freed_while_its_context_ends_comes_back_once) {
  budget& b = of(8 * mib);
  pool& p = make_pool();
  limiting& l = make<limiting>(p, b);
  get(l, 1 * mib);
  free_beside_the_end(p, get(l, 2 * mib));
  EXPECT_EQ(b.left(), 8 * mib);
  begin_next_context();
  EXPECT_EQ(refusal(l, 8 * mib), CUDA_SUCCESS);
  EXPECT_EQ(b.left(), 0u);
}

TEST_F(limiting_fixture, below_a_pool_it_counts_segments_and_the_pool_gives_back_what_is_idle) {
  budget& b = of(8 * mib);
  auto& source = below<limiting_source>(5u, here->cuda, b);
  pool& p = make<pool>(pool_options{}, source);
  std::vector<space::handle> all;
  for (int i = 0; i < 4; ++i) all.push_back(get(p, 2 * mib));
  EXPECT_EQ(b.left(), 0u);
  EXPECT_EQ(driver.used(), 8 * mib);
  EXPECT_EQ(refusal(p, 2 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  for (space::handle const h : all) give(p, h);
  EXPECT_EQ(b.left(), 0u) << "the pool keeps its segments";
  EXPECT_TRUE(p.counts_in(b));
  EXPECT_EQ(refusal(p, 7 * mib), CUDA_SUCCESS) << "four segments, none large enough, make room for one";
  EXPECT_RUNG(rung_trimmed, 1);
  EXPECT_EQ(driver.used(), 8 * mib) << "segments are whole pages of the driver";
  EXPECT_EQ(b.left(), 0u);
  EXPECT_NE(reason(p, 2 * mib).find("limit 8.00 MiB, in use 8.00 MiB"), std::string::npos);
}

TEST_F(limiting_fixture, observed_memory_and_blocks_share_the_limit) {
  observed_use::hold(0, 3 * mib, 0);
  budget& b = of(8 * mib);
  EXPECT_EQ(b.left(), 5 * mib) << "what was there before counts";
  limiting& l = make<limiting>(make_pool(), b);
  space::handle const h = get(l, 4 * mib);
  budget const* against = nullptr;
  EXPECT_FALSE(observed_use::admit(0, 1 * mib + 1, against));
  EXPECT_EQ(against, &b);
  EXPECT_EQ(b.left(), 1 * mib);
  EXPECT_TRUE(observed_use::admit(0, 1 * mib, against));
  EXPECT_EQ(refusal(l, 1), CUDA_ERROR_OUT_OF_MEMORY) << "admitted bytes are taken before the driver has them";
  observed_use::withdraw(0, 1 * mib);
  EXPECT_EQ(b.left(), 1 * mib);
  EXPECT_TRUE(observed_use::admit(0, 1 * mib, against));
  observed_use::hold(0, 512, 1 * mib);
  EXPECT_EQ(b.left(), 1 * mib - 512);
  EXPECT_NE(reason(l, 2 * mib).find("of it seen only 3.00 MiB"), std::string::npos);
  observed_use::let_go(0, 512);
  observed_use::let_go(0, 3 * mib);
  give(l, h);
  EXPECT_EQ(b.left(), 8 * mib);
}

TEST_F(limiting_fixture, the_most_that_was_observed_at_one_time_is_kept) {
  constexpr int device = 7, threads = 4, rounds = 200;  // a device that no other test uses
  auto& gauges = stats::gauges(device);
  std::barrier together(threads);
  std::vector<std::thread> all;
  for (unsigned i = 1; i <= threads; ++i) {
    all.emplace_back([&, i] {
      for (int round = 0; round < rounds; ++round) {
        observed_use::enter(device, i * mib);
        together.arrive_and_wait();
        observed_use::leave(device, i * mib);
        together.arrive_and_wait();
      }
    });
  }
  for (auto& thread : all) thread.join();
  EXPECT_EQ(stats::get(gauges.observed), 0u);
  EXPECT_EQ(stats::get(gauges.highest_observed), 10 * mib);
  observed_use::enter(device, 2 * mib);
  EXPECT_EQ(stats::get(gauges.highest_observed), 10 * mib);
  observed_use::leave(device, 2 * mib);
}

TEST_F(limiting_fixture, every_budget_of_the_device_must_agree_and_none_keeps_a_part) {
  budget& wide = of(8 * mib, "wide");
  budget& narrow = of(2 * mib, "narrow");
  budget& wider = of(9 * mib, "wider");
  budget const* against = nullptr;
  EXPECT_FALSE(observed_use::admit(0, 4 * mib, against));
  EXPECT_EQ(against, &narrow);
  EXPECT_EQ(wide.left(), 8 * mib);
  EXPECT_EQ(wider.left(), 9 * mib);
  EXPECT_TRUE(observed_use::admit(1, 4 * mib, against)) << "another device has no limit";
  observed_use::withdraw(1, 4 * mib);
}

}  // namespace
}  // namespace gpumem::resource
