// The resource `fallback` and its form below a pool: when the next chain is asked, that frees find their way
// home, and what is counted.
#include "core/resource/selectors/fallback.hpp"

#include "core/resource/adaptors/limiting.hpp"
#include "core/upstream/managed.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

constexpr std::size_t first_node = 50;
constexpr std::size_t second_node = 51;

struct fallback_fixture : resource_fixture {
  upstream::managed* managed = nullptr;
  stats::node_counters first_before{}, second_before{};

  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    managed = new upstream::managed(here->home, 40);
    first_before = stats::local().nodes[first_node];
    second_before = stats::local().nodes[second_node];
  }
  void TearDown() override {
    resource_fixture::TearDown();
    delete managed;
    budget::forget_all();
  }
  static budget& limit(std::uint64_t bytes) {
    return *budget::find_or_make({.name = "limiting", .limit = bytes});
  }
  // [[limiting, pool, cuda], [managed]]
  fallback& make_fallback(std::uint64_t bytes) {
    auto& above = make<limiting>(make_pool(), limit(bytes));
    auto& second = make<direct>(*managed);
    return make<fallback>(std::vector<fallback::branch>{{&above, first_node}, {&second, second_node}});
  }
  std::uint64_t second_current() const {
    auto const& now = stats::local().nodes[second_node];
    return now.bytes_in - second_before.bytes_in - (now.bytes_out - second_before.bytes_out);
  }
  std::uint64_t spilled() const { return stats::local().nodes[second_node].hits - second_before.hits; }
  // Of all that this process spilled there, in whatever test.
  std::uint64_t most() const { return stats::local().nodes[second_node].most; }
};

TEST_F(fallback_fixture, the_next_chain_serves_what_the_first_cannot) {
  fallback& f = make_fallback(4 * mib);
  space::handle const a = get(f, 3 * mib);
  EXPECT_EQ(driver.calls("cuMemAllocManaged"), 0);
  space::handle const b = get(f, 2 * mib);
  space::handle const c = get(f, 1 * mib);
  EXPECT_EQ(driver.calls("cuMemAllocManaged"), 1);
  EXPECT_EQ(spilled(), 1u);
  EXPECT_EQ(second_current(), 2 * mib);
  EXPECT_RUNG(rung_fallback, 1);
  give(f, b);
  EXPECT_EQ(second_current(), 0u) << "the free found its chain";
  EXPECT_EQ(limit(0).left(), 0u) << "and the first chain's budget is untouched";
  give(f, a);
  EXPECT_EQ(limit(0).left(), 3 * mib);
  space::handle const d = get(f, 3 * mib);
  EXPECT_EQ(spilled(), 1u) << "the first chain is always asked first";
  EXPECT_EQ(most(), 2 * mib);
  give(f, c);
  give(f, d);
}

TEST_F(fallback_fixture, the_first_chain_climbs_its_whole_ladder_before) {
  auto& source = below<limiting_source>(5u, here->cuda, limit(8 * mib));
  pool& first = make<pool>(pool_options{}, source);
  direct& second = make<direct>(*managed);
  fallback& f = make<fallback>(std::vector<fallback::branch>{{&first, first_node}, {&second, second_node}});
  std::vector<space::handle> all;
  for (int i = 0; i < 4; ++i) all.push_back(get(f, 2 * mib));
  for (space::handle const h : all) give(f, h);
  get(f, 7 * mib);
  EXPECT_EQ(spilled(), 0u) << "its idle segments went back first";
  EXPECT_RUNG(rung_trimmed, 1);
  get(f, 2 * mib);
  EXPECT_EQ(spilled(), 1u);
}

TEST_F(fallback_fixture, other_codes_pass_up) {
  fallback& f = make_fallback(64 * mib);
  driver.fail("cuMemAlloc_v2", CUDA_ERROR_ILLEGAL_ADDRESS, 1000);
  EXPECT_EQ(refusal(f, mib), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(driver.calls("cuMemAllocManaged"), 0);
}

TEST_F(fallback_fixture, when_all_refuse_the_reason_names_the_first_and_the_last) {
  fallback& f = make_fallback(1 * mib);
  driver.set_capacity(2 * mib);
  try {
    get(f, 16 * mib);
    FAIL();
  } catch (driver::allocation_failed const& failed) {
    EXPECT_EQ(failed.code(), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(failed.kind(), driver::refused_by::driver);
    EXPECT_STREQ(
        failed.what(),
        "fallback: limiting \"limiting\": limit 1.00 MiB, in use 0 B, of it seen only 0 B, asked 16.00 "
        "MiB; then managed: the driver refused 16.00 MiB");
  }
}

TEST_F(fallback_fixture, the_peak_is_of_all_threads_and_only_grows) {
  fallback& f = make_fallback(512);
  get(f, 512);
  for (int round = 0; round < 3; ++round) {
    space::handle const a = get(f, 1 * mib);
    space::handle const b = get(f, 2 * mib);
    give(f, a);
    give(f, b);
  }
  EXPECT_EQ(spilled(), 6u);
  EXPECT_EQ(most(), 3 * mib);
  EXPECT_EQ(second_current(), 0u);
}

TEST_F(fallback_fixture, below_a_pool_segments_come_from_either_and_go_home) {
  auto& limited = below<limiting_source>(5u, here->cuda, limit(4 * mib));
  auto& source = below<fallback_source>(
      here->home, 6u, std::vector<fallback_source::branch>{{&limited, first_node}, {managed, second_node}});
  pool& p = make<pool>(pool_options{}, source);
  space::handle const a = get(p, 4 * mib);
  space::handle const b = get(p, 4 * mib);
  EXPECT_EQ(driver.calls("cuMemAllocManaged"), 1);
  EXPECT_EQ(second_current(), 4 * mib);
  auto const& first = stats::local().nodes[first_node];
  EXPECT_EQ(first.requests - first_before.requests,
            first.hits - first_before.hits + first.failed - first_before.failed)
      << "what a chain did not serve it refused";
  give(p, a);
  give(p, b);
  p.give_back(give_back_scope::all);
  EXPECT_EQ(driver.used(), 0u);
  EXPECT_EQ(second_current(), 0u);
  EXPECT_EQ(limit(0).left(), 4 * mib);
  get(p, 4 * mib);
  get(p, 4 * mib);
  p.forget();
  EXPECT_EQ(limit(0).left(), 4 * mib);
  EXPECT_EQ(second_current(), 0u);
}

}  // namespace
}  // namespace gpumem::resource
