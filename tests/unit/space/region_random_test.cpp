// A region under 10^5 random calls for each seed, checked block by block against a model.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/seeds.hpp"
#include "tests/unit/space/region_driver.hpp"

namespace gpumem::space {
namespace {

TEST(region_random, keeps_its_promises) {
  for (unsigned const seed : tests::seeds()) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int step = 0;
    auto const choose = [&](std::uint64_t below) { return random() % below; };
    auto const complain = [&](std::string const& what) { FAIL() << "step " << step << ": " << what; };
    region_driver driver(choose, complain);
    std::size_t most = 0;
    for (; step < 100'000 && !::testing::Test::HasFailure(); ++step) {
      driver.step();
      most = std::max(most, driver.live());
      if (step % 16 == 0) driver.check();
    }
    driver.check();
    EXPECT_GT(most, 50u) << "too few blocks to prove anything";
  }
}

}  // namespace
}  // namespace gpumem::space
