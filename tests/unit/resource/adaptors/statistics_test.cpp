// Exact figures: now, peak, total, sizes as asked, call sites; over a context that goes; from many threads.
#include "core/resource/adaptors/statistics.hpp"

#include <thread>

#include "tests/unit/resource/adaptors/adaptor_fixture.hpp"

namespace gpumem::resource {
namespace {

using statistics_test = adaptor_fixture;

constexpr std::size_t first_node = 40;  // the page outlives a test: each has a node of its own

std::unique_ptr<statistics> over(chain_context const& home, std::size_t node, resource& below,
                                 bool sites = false) {
  return std::make_unique<statistics>(home, node, statistics_options{.callsites = sites, .histogram = true},
                                      below);
}

TEST_F(statistics_test, now_peak_and_sizes) {
  auto part = over(here->home, first_node, make_pool());
  stats::node_figures const figures(first_node);
  auto const& counters = stats::local().nodes[first_node];
  stats::node_counters const before = counters;  // a test with dozens of resources comes so far
  std::vector<space::handle> live;
  for (int i = 0; i < 5; ++i) live.push_back(get_from(*part, 1000, code(1)));
  for (int i = 0; i < 3; ++i) {
    give_from(live.back(), code(2));
    live.pop_back();
  }
  live.push_back(get_from(*part, 4000, code(1)));
  EXPECT_EQ(figures.gauges().blocks_now, 3u);
  EXPECT_EQ(figures.gauges().bytes_now, 2 * 1024u + 4096u) << "handed out, rounding included";
  EXPECT_EQ(figures.gauges().peak_blocks, 5u);
  EXPECT_EQ(figures.gauges().peak_bytes, std::max(5 * 1024u, 2 * 1024u + 4096u));
  EXPECT_EQ(figures.bucket(10).count, 5u);
  EXPECT_EQ(figures.bucket(10).bytes, 5000u) << "as asked";
  EXPECT_EQ(figures.bucket(12).count, 1u);
  EXPECT_EQ(counters.requests - before.requests, 6u);
  EXPECT_EQ(counters.bytes_in - before.bytes_in - (counters.bytes_out - before.bytes_out),
            figures.gauges().bytes_now);
}

TEST_F(statistics_test, a_refusal_is_no_allocation) {
  auto part = over(here->home, first_node + 1, make_pool({.maximum_pool_size = 4 * mib}));
  stats::node_figures const figures(first_node + 1);
  driver.manual_events(false);  // a refusal waits for all frees first
  EXPECT_THROW(get_from(*part, 8 * mib, code(1)), driver::allocation_failed);
  EXPECT_EQ(figures.gauges().blocks_now, 0u);
  EXPECT_EQ(stats::local().nodes[first_node + 1].failed, 1u);
}

TEST_F(statistics_test, what_a_context_takes_with_it_is_not_counted_as_live) {
  auto part = over(here->home, first_node + 2, make_pool());
  stats::node_figures const figures(first_node + 2);
  get_from(*part, 1000, code(1));
  end_context();
  EXPECT_EQ(figures.gauges().blocks_now, 0u);
  EXPECT_EQ(figures.gauges().bytes_now, 0u);
  EXPECT_EQ(figures.gauges().peak_blocks, 1u);
}

TEST_F(statistics_test, what_is_freed_while_its_context_ends_goes_once) {
  pool& p = make_pool();
  auto& part = *here->parts.emplace_back(over(here->home, first_node + 5, p));
  stats::node_figures const figures(first_node + 5);
  get_from(part, mib, code(1));
  free_beside_the_end(p, get_from(part, 2 * mib, code(1)));
  EXPECT_EQ(figures.gauges().blocks_now, 0u);
  EXPECT_EQ(figures.gauges().bytes_now, 0u);
  EXPECT_EQ(figures.gauges().peak_bytes, 3 * mib);
}

TEST_F(statistics_test, call_sites_by_bytes_and_count) {
  std::size_t const node = stats::register_node("by site", "statistics", 0, 0, "device", "");
  auto part = over(here->home, node, make_pool(), true);
  for (int i = 0; i < 7; ++i) get_from(*part, 100, code(1));
  get_from(*part, 5000, code(2));
  std::uint64_t found = 0;
  for (auto const& site : snapshot().call_sites) {
    if (site.node != node) continue;
    found += site.allocations;
    ASSERT_EQ(site.frames.size(), 1u);
    EXPECT_NE(site.frames[0].library.find("libc"), std::string::npos) << site.frames[0].library;
    bool const first = site.frames[0].address == reinterpret_cast<std::uint64_t>(code(1));
    EXPECT_EQ(site.allocated_bytes, first ? 700u : 5000u);
  }
  EXPECT_EQ(found, 8u);
}

TEST_F(statistics_test, threads_lose_nothing) {
  auto part = over(here->home, first_node + 3, make_pool());
  stats::node_figures const figures(first_node + 3);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) give_from(get_from(*part, 700, code(t)), code(t));
      });
    }
  }
  EXPECT_EQ(figures.gauges().blocks_now, 0u);
  EXPECT_EQ(figures.gauges().bytes_now, 0u);
  EXPECT_EQ(figures.bucket(10).count, 3000u);
  EXPECT_GE(figures.gauges().peak_blocks, 1u);
  EXPECT_LE(figures.gauges().peak_blocks, 6u);
}

TEST_F(statistics_test, segments_below_a_pool) {
  auto counted = std::make_unique<segment_statistics>(first_node + 4, statistics_options{}, here->cuda);
  stats::node_figures const figures(first_node + 4);
  extent const memory = counted->reserve({.bytes = 2 * mib});
  EXPECT_EQ(figures.gauges().bytes_now, 2 * mib);
  counted->release(memory, {});
  counted->lost(counted->reserve({.bytes = 2 * mib}));
  EXPECT_EQ(figures.gauges().bytes_now, 0u);
  EXPECT_EQ(figures.gauges().peak_blocks, 1u);
}

}  // namespace
}  // namespace gpumem::resource
