// Near names are found, far ones are not offered.
#include "config/text/suggest.hpp"

#include <gtest/gtest.h>

namespace gpumem::config {
namespace {

std::vector<std::string_view> const names{"pool", "binning",    "fixed_size",
                                          "cuda", "cuda_async", "initial_pool_size"};

TEST(suggest, finds_typing_errors_transpositions_and_case) {
  EXPECT_EQ(nearest("pol", names), "pool");
  EXPECT_EQ(nearest("opol", names), "pool");
  EXPECT_EQ(nearest("Pool", names), "pool");
  EXPECT_EQ(nearest("bining", names), "binning");
  EXPECT_EQ(nearest("cuda-async", names), "cuda_async");
  EXPECT_EQ(nearest("initail_pool_size", names), "initial_pool_size");
}

TEST(suggest, finds_the_start_of_a_longer_name) {
  EXPECT_EQ(nearest("fixed", names), "fixed_size");
  EXPECT_EQ(nearest("initial", names), "initial_pool_size");
}

TEST(suggest, offers_nothing_far_fetched) {
  EXPECT_EQ(nearest("xyzzy", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("gpu", names), "");
  EXPECT_EQ(nearest(std::string(10'000, 'p'), names), "");
  EXPECT_EQ(did_you_mean("xyzzy", names), "");
  EXPECT_EQ(did_you_mean("pol", names), "did you mean \"pool\"?");
}

}  // namespace
}  // namespace gpumem::config
