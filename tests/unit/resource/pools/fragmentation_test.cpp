// How full a pool gets before it refuses, after many operations of random sizes up to 1 GiB: over pages 99 %
// of its maximum at each refusal, since idle pieces are given back for new ones where they are needed and
// only fragments below a page stay; over plain allocations holes of any size do. And how many driver calls
// that takes.
#include <array>
#include <cmath>
#include <random>
#include <string>

#include "core/resource/adaptors/limiting.hpp"
#include "core/upstream/vmm.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

constexpr std::uint64_t maximum = 128 * gib;
#if defined(GPUMEM_UNDER_ASAN)
constexpr std::uint64_t steps_over_pages = 30'000;  // each costs tens of times as much
#else
constexpr std::uint64_t steps_over_pages = 300'000;
#endif

struct fullness {
  double lowest = 1;  // (live + refused) / maximum over all refusals
  std::uint64_t refusals = 0;
  std::uint64_t requests = 0;
  int pieces_at_first = 0;  // made until the first refusal
};

struct fragmentation : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    driver.set_capacity(4 * maximum);
  }

  // Fills the pool until it refuses, frees a random part, fills it again.
  fullness torture(source& below, std::uint64_t operations, std::uint64_t most,
                   pool_options const& o = {.maximum_pool_size = maximum}) {
    pool& p = make<pool>(o, below);
    std::mt19937 random(7);
    std::uniform_real_distribution<double> exponent(std::log2(512.0), std::log2(static_cast<double>(most)));
    std::vector<space::handle> live;
    std::uint64_t bytes = 0;
    fullness result;
    for (std::uint64_t step = 0; step < operations; ++step) {
      auto const wanted = static_cast<std::uint64_t>(std::exp2(exponent(random)));
      ++result.requests;
      try {
        live.push_back(get(p, wanted));
        bytes += block(live.back()).bytes();
      } catch (driver::allocation_failed const&) {
        result.lowest = std::min(result.lowest, static_cast<double>(bytes + wanted) / maximum);
        if (++result.refusals == 1) result.pieces_at_first = driver.calls("cuMemCreate");
        std::uint64_t const keep = maximum / 100 * (30 + random() % 68);
        for (; bytes > keep; ++step) {
          std::swap(live[random() % live.size()], live.back());
          bytes -= block(live.back()).bytes();
          give(p, live.back());
          live.pop_back();
        }
      }
    }
    for (space::handle const h : live) give(p, h);
    return result;
  }
};

TEST_F(fragmentation, a_pool_over_pages_gets_full_before_it_refuses) {
  auto& pages = *new upstream::vmm(here->home, 0, 0);
  fullness const seen = torture(pages, steps_over_pages, 1 * gib);
  std::printf("over pages: %llu refusals, none below %.2f %% of the maximum\n",
              static_cast<unsigned long long>(seen.refusals), 100 * seen.lowest);
  std::printf("the first fill in %d pieces\n", seen.pieces_at_first);
  for (char const* name : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"}) {
    std::printf("%s: %.2f a request\n", name, driver.calls(name) / static_cast<double>(seen.requests));
  }
  EXPECT_LT(seen.pieces_at_first, 65'536 / 8) << "page by page it would be 65,536";
  EXPECT_GT(seen.refusals, steps_over_pages / 6000);
  EXPECT_GE(seen.lowest, 0.99);
}

// As a pool without a maximum is configured.
TEST_F(fragmentation, so_does_one_that_has_all_that_the_driver_has) {
  driver.set_capacity(maximum);
  auto& pages = *new upstream::vmm(here->home, 0, 0);
  fullness const seen = torture(pages, steps_over_pages / 10, 1 * gib, {.sparing_beyond = maximum / 4 * 3});
  std::printf("over all pages: %llu refusals, none below %.2f %% of the device\n",
              static_cast<unsigned long long>(seen.refusals), 100 * seen.lowest);
  EXPECT_GT(seen.refusals, steps_over_pages / 60'000);
  EXPECT_GE(seen.lowest, 0.99);
}

TEST_F(fragmentation, over_plain_allocations_it_does_not) {
  fullness const seen = torture(here->cuda, 30'000, 1 * gib);
  std::printf("over cuMemAlloc: %llu refusals, the first bad one at %.2f %%\n",
              static_cast<unsigned long long>(seen.refusals), 100 * seen.lowest);
  EXPECT_LT(seen.lowest, 0.99) << "then the test above says nothing";
}

struct fill {
  int requests = 0, refused = 0, growths = 0;
};

enum class part { of_a_device, of_a_maximum, that_others_left, of_a_limit };

// A program that has all but `spare` of what there is in use, thins out and fills again; no request is more
// than natively fits.
struct nearly_full : fragmentation, testing::WithParamInterface<part> {
  static constexpr std::uint64_t device = 80 * gib;

  void SetUp() override {
    fragmentation::SetUp();
    stats::gauges(here->home.device).total = device;
  }
  void TearDown() override {
    stats::gauges(here->home.device).total = stats::gauges(here->home.device).used = 0;
    fragmentation::TearDown();
  }
  fill fill_all_but(std::uint64_t spare, unsigned seed) {
    part const of = GetParam();
    bool const half = of == part::that_others_left || of == part::of_a_limit;
    std::uint64_t const all = half ? device / 2 : device;
    driver.set_capacity(of == part::of_a_maximum || of == part::of_a_limit ? 2 * device : device);
    CUdeviceptr others = 0;
    if (of == part::that_others_left) {
      EXPECT_EQ(driver.allocate(&others, device / 2), CUDA_SUCCESS);
      stats::gauges(here->home.device).used = device / 2;  // as a growth tells
    }
    pool_options const o = of == part::of_a_maximum ? pool_options{.maximum_pool_size = device}
                                                    : pool_options{.sparing_beyond = device / 4 * 3};
    auto& limited =
        below<limiting_source>(5u, here->cuda, *budget::find_or_make({.name = "nearly_full", .limit = all}));
    pool& p = make<pool>(o, of == part::of_a_limit ? static_cast<source&>(limited) : here->cuda);
    std::uint64_t const wanted = all - spare;
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> exponent(9, std::log2(static_cast<double>(wanted / 32)));
    std::vector<space::handle> live;
    std::uint64_t used = 0;
    fill result{.growths = -driver.calls("cuMemAlloc_v2")};
    auto const give_down_to = [&](std::uint64_t most) {
      while (used > most) {
        std::swap(live[random() % live.size()], live.back());
        used -= block(live.back()).bytes();
        give(p, live.back());
        live.pop_back();
      }
    };
    for (int round = 0; round < 20; ++round) {
      for (;;) {
        auto const bytes = static_cast<std::uint64_t>(std::exp2(exponent(random)));
        if (used + bytes > wanted) break;
        ++result.requests;
        try {
          live.push_back(get(p, bytes));
          used += block(live.back()).bytes();
        } catch (driver::allocation_failed const&) {
          ++result.refused;
          break;
        }
      }
      give_down_to(wanted / 100 * (30 + random() % 60));
    }
    give_down_to(0);
    p.give_back(give_back_scope::all);
    if (others != 0) {
      EXPECT_EQ(driver.release(others), CUDA_SUCCESS);
    }
    result.growths += driver.calls("cuMemAlloc_v2");
    return result;
  }
};

// Before large blocks lay by themselves more than half of the rounds with all but 8 GiB and less were
// refused.
TEST_P(nearly_full, what_natively_fits_is_not_refused) {
  for (auto const& [spare, bad_rounds] :
       {std::pair{32 * gib, 0}, std::pair{16 * gib, 0}, std::pair{8 * gib, 0}, std::pair{4 * gib, 1}}) {
    int refused = 0;
    for (unsigned seed = 1; seed <= 8; ++seed) {
      fill const seen = fill_all_but(spare, seed);
      refused += seen.refused;
      EXPECT_LT(seen.growths, seen.requests / 3) << "natively each request is one";
    }
    EXPECT_LE(refused, bad_rounds) << "of 160 rounds with all but " << spare / gib << " GiB";
  }
}

std::string name_of(testing::TestParamInfo<part> const& now) {
  constexpr std::array names{"of_a_device", "of_a_maximum", "that_others_left", "of_a_limit"};
  return names[static_cast<std::size_t>(now.param)];
}

INSTANTIATE_TEST_SUITE_P(, nearly_full,
                         testing::Values(part::of_a_device, part::of_a_maximum, part::that_others_left,
                                         part::of_a_limit),
                         name_of);

// As RMM's random allocations: 16 GiB in use at most, and the segments of smaller blocks from before.
TEST_F(fragmentation, large_blocks_of_a_part_of_the_device_come_to_rest) {
  constexpr std::uint64_t device = 80 * gib;
  driver.set_capacity(device);
  pool& p = make<pool>(pool_options{.sparing_beyond = device / 4 * 3}, here->cuda);
  auto const one_round = [&](std::uint64_t most) {
    std::mt19937 random(7);
    std::vector<space::handle> live;
    std::uint64_t bytes = 0;
    int const before = driver.calls("cuMemAlloc_v2");
    for (int step = 0; step < 2000; ++step) {
      std::uint64_t const wanted = 1 + random() % most;
      if (live.empty() || (random() % 100 < 73 && bytes + wanted < 16 * gib)) {
        live.push_back(get(p, wanted));
        bytes += block(live.back()).bytes();
      } else {
        std::swap(live[random() % live.size()], live.back());
        bytes -= block(live.back()).bytes();
        give(p, live.back());
        live.pop_back();
      }
    }
    for (space::handle const h : live) give(p, h);
    return driver.calls("cuMemAlloc_v2") - before;
  };
  for (std::uint64_t const most : {64 * mib, 256 * mib, 1 * gib}) one_round(most);
  int growths = 0;
  for (int round = 0; round < 4; ++round) growths += one_round(4 * gib);
  EXPECT_LE(growths, 15) << "51 where each growth takes what it needs alone";
}

}  // namespace
}  // namespace gpumem::resource
