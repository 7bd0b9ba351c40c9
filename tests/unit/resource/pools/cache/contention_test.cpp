// Contention of a pool's mutex: told where more than one in four waits for long, and forgotten afterwards.
#include "core/resource/pools/cache/contention.hpp"

#include <gtest/gtest.h>

namespace gpumem::resource {
namespace {

// One in so many waits; how often of the rounds it was high.
int high_of(contention& waits, int one_in, int rounds) {
  int high = 0;
  for (int i = 0; i < rounds; ++i) {
    i % one_in == 0 ? waits.waited() : waits.found_free();
    high += waits.is_high() ? 1 : 0;
  }
  return high;
}

TEST(contention, is_high_where_every_other_one_waits) {
  contention waits;
  EXPECT_GT(high_of(waits, 2, 10'000), 9'000);
}

TEST(contention, is_never_high_where_one_in_four_waits) {
  contention waits;
  EXPECT_EQ(high_of(waits, 4, 100'000), 0);
}

// As where a thread that holds the mutex loses its processor, and all others come to wait for it.
TEST(contention, a_row_of_waits_is_forgotten) {
  contention waits;
  EXPECT_EQ(high_of(waits, 1, 100), 0);
  EXPECT_EQ(high_of(waits, 8, 400), 0);
  EXPECT_EQ(high_of(waits, 1, 100), 0);
}

TEST(contention, ends) {
  contention waits;
  high_of(waits, 1, 100'000);
  ASSERT_TRUE(waits.is_high());
  high_of(waits, 1 << 20, 2'000);
  EXPECT_FALSE(waits.is_high());
}

}  // namespace
}  // namespace gpumem::resource
