// Samples: how far apart they lie, what each stands for, and that sums of them are those of what was
// requested: exactly where each request is one, on average else.
#include "core/stats/callers/samples.hpp"

#include "core/base/clock.hpp"
#include "core/base/threads/walk_stack.hpp"
#include "tests/unit/own_clock/own_clock.hpp"
#include "tests/unit/stats/page_fixture.hpp"

namespace gpumem::stats {
namespace {

using samples = page_fixture;

constexpr std::uint64_t kib = 1024, mib = 1024 * kib;

TEST_F(samples, gaps_are_right_on_average) {
  for (std::uint64_t every : {100 * kib, 32 * mib}) {
    constexpr int drawn = 200'000;
    double sum = 0, beyond = 0;
    for (std::uint64_t i = 0; i < drawn; ++i) {
      auto const gap = static_cast<double>(sampling_gap(every, i));
      sum += gap;
      beyond += gap > static_cast<double>(every) ? 1 : 0;
    }
    EXPECT_NEAR(sum / drawn / static_cast<double>(every), 1, 0.01) << every;
    EXPECT_NEAR(beyond / drawn, 0.3679, 0.01) << every;
  }
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sampling_gap(1, i), 1u);
}

TEST_F(samples, a_sample_stands_for_its_bytes_by_its_chance) {
  EXPECT_EQ(sampled_weight(1, 5), 5u);
  EXPECT_EQ(sampled_weight(mib, 100 * mib), 100 * mib);
  EXPECT_NEAR(static_cast<double>(sampled_weight(32 * mib, 64 * mib)), 64.0 * mib / 0.8646647, 100);
  EXPECT_NEAR(static_cast<double>(sampled_weight(32 * mib, 32 * mib)), 32.0 * mib / 0.6321206, 100);
  // No step between the two ways to reckon it.
  EXPECT_NEAR(static_cast<double>(sampled_weight(32 * mib, 16 * mib - 1)),
              static_cast<double>(sampled_weight(32 * mib, 16 * mib)), 3000);
  EXPECT_NEAR(static_cast<double>(sampled_weight(32 * mib, 512)), 32.0 * mib + 256, 2);
}

std::uint64_t request(std::uint64_t bytes, void const* caller, sample& taken) {
  device_counters& mine = local().devices[0];
  add(mine.allocated_blocks, 1);
  add(mine.allocated_requested, bytes);
  taken = must_sample(mine) ? take_sample(mine, {0, bytes, caller, &mine}) : sample{};
  return taken.bytes;
}

TEST_F(samples, each_request_is_one_at_a_distance_of_one_byte) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10'000);
    use_samples(1);
    int one = 0, other = 0;
    sample first, taken;
    EXPECT_EQ(request(1000, &one, first), 1000u);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(request(7, &other, taken), 7u);
    count_sampled_free(first);
    auto const now = take_snapshot();
    ASSERT_EQ(now.value.sampled_sites.size(), 2u);
    std::uint64_t live = 0, count = 0;
    for (auto const& site : now.value.sampled_sites) live += site.now, count += site.samples;
    EXPECT_EQ(live, 350u);
    EXPECT_EQ(count, 51u);
    EXPECT_EQ(now.value.sample_every, 1u);
  });
}

TEST_F(samples, sums_are_right_on_average) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10'000);
    use_samples(mib);
    int here = 0;
    double estimated = 0, truth = 0;
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      sample taken;
      std::uint64_t const bytes = 512 + i * 7919 % (2 * mib);
      local().devices[0].samples_since = 0;  // as of a program that does something with its memory
      estimated += static_cast<double>(request(bytes, &here, taken));
      truth += static_cast<double>(bytes);
      count_sampled_free(taken);
    }
    EXPECT_NEAR(estimated / truth, 1, 0.015);
    EXPECT_EQ(take_snapshot().value.sampled_sites.at(0).now, 0u);
  });
}

// A loop that does nothing else has few of its requests drawn, whatever their size: each stands for more.
TEST_F(samples, few_are_taken_of_a_loop_that_only_allocates) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10'000);
    use_samples(32 * mib);
    tests::own_clock clock;
    int here = 0;
    for (std::uint64_t const largest : {mib, 4 * mib, 16 * mib, 64 * mib, 1024 * mib}) {
      constexpr std::uint64_t requests = 400'000;
      double estimated = 0, truth = 0;
      std::uint64_t drawn = 0;
      for (std::uint64_t i = 0; i < requests; ++i) {
        clock.pass(500);  // however busy the machine is
        sample taken;
        std::uint64_t const bytes = largest - largest / 2 * (i % 5) / 4;
        estimated += static_cast<double>(request(bytes, &here, taken));
        truth += static_cast<double>(bytes);
        if (!taken.is_none()) ++drawn;
        count_sampled_free(taken);
      }
      EXPECT_NEAR(estimated / truth, 1, 0.08) << largest;
      EXPECT_LT(drawn, requests / 100) << largest;
    }
  });
}

// More sites than one thread keeps, and than the table has: all is counted somewhere.
TEST_F(samples, nothing_is_lost_between_many_sites) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10'000);
    use_samples(1);
    static char code[4000];
    std::vector<sample> taken(4000);
    for (std::size_t i = 0; i < taken.size(); ++i) request(i + 1, &code[i], taken[i]);
    for (std::size_t i = 0; i < taken.size(); i += 2) count_sampled_free(taken[i]);
    auto const now = take_snapshot();
    std::uint64_t live = 0;
    for (auto const& site : now.value.sampled_sites) live += site.now;
    EXPECT_EQ(live, 2000u * 2001u);  // the even numbers up to 4000
    EXPECT_LE(now.value.sampled_sites.size(), max_sampled_sites + 1);
    EXPECT_EQ(now.value.call_sites_dropped, 0u);
  });
}

TEST_F(samples, none_are_taken) {
  expect_good_child([] {
    open_test_page();
    use_samples(0);
    sample taken;
    EXPECT_EQ(request(mib, nullptr, taken), 0u);
    EXPECT_FALSE(must_sample(local().devices[0]));
    EXPECT_EQ(request(1000 * mib, nullptr, taken), 0u);
  });
}

TEST_F(samples, a_refusal_keeps_the_largest_sites) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10'000);
    use_samples(1);
    static char code[max_failure_sites + 36];
    sample taken;
    for (std::size_t i = 0; i < sizeof code; ++i) request(100 * (i + 1), &code[i], taken);
    failure refused;
    refused.bytes = 5, refused.code = 2, refused.reason = "limit";
    note_failure(refused);
    auto const now = take_snapshot();
    auto const& sites = now.value.failures.at(0).sites;
    ASSERT_EQ(sites.size(), max_failure_sites);
    for (std::size_t i = 0; i < sites.size(); ++i) EXPECT_EQ(sites[i].bytes, 100 * (sizeof code - i)) << i;
    EXPECT_EQ(now.value.failures[0].sampled, 100 * sizeof code * (sizeof code + 1) / 2);
  });
}

}  // namespace
}  // namespace gpumem::stats
