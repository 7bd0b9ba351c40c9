// The ledger adds up for any counters, also torn and senseless ones, and no row is ever negative.
#include "core/stats/ledger.hpp"

#include <gtest/gtest.h>

#include <random>

namespace gpumem::stats {
namespace {

void expect_adds_up(ledger const& rows) {
  EXPECT_EQ(rows.requested + rows.rounding + rows.pending + rows.cached, rows.reserved);
  EXPECT_GE(rows.reserved, rows.requested);
  ASSERT_EQ(rows.unseen.has_value(), rows.in_use.has_value());
  if (rows.in_use) {
    EXPECT_EQ(rows.reserved + rows.observed + *rows.unseen, *rows.in_use);
    EXPECT_GE(*rows.in_use, rows.reserved);
  }
}

TEST(ledger, a_plain_case) {
  device_counters counters{};
  counters.allocated_requested = 1000, counters.allocated_handed = 1536;
  counters.freed_requested = 400, counters.freed_handed = 512;
  device_gauges gauges{};
  gauges.reserved = 4096, gauges.pending = 300, gauges.used = 6000, gauges.observed = 1000,
  gauges.total = 10000;
  ledger const rows = ledger_now(counters, gauges);
  EXPECT_EQ(rows.requested, 600u);
  EXPECT_EQ(rows.rounding, 424u);
  EXPECT_EQ(rows.pending, 300u);
  EXPECT_EQ(rows.cached, 4096u - 1024 - 300);
  EXPECT_EQ(rows.reserved, 4096u);
  EXPECT_EQ(rows.unseen, 6000u - 4096 - 1000);
  EXPECT_EQ(rows.free, 4000u);
  expect_adds_up(rows);
}

TEST(ledger, what_was_never_asked_is_unknown) {
  ledger const rows = ledger_now(device_counters{}, device_gauges{});
  EXPECT_FALSE(rows.in_use.has_value());
  EXPECT_FALSE(rows.unseen.has_value());
  EXPECT_FALSE(rows.free.has_value());
  expect_adds_up(rows);
}

TEST(ledger, random_counters) {
  std::mt19937_64 random(20240601);
  for (int i = 0; i < 20000; ++i) {
    device_counters counters{};
    device_gauges gauges{};
    // Magnitudes up to 2^40, so that frees often exceed allocations, as in a torn read.
    for (auto* word = reinterpret_cast<std::uint64_t*>(&counters);
         word != reinterpret_cast<std::uint64_t*>(&counters + 1); ++word) {
      *word = random() >> (24 + random() % 40);
    }
    for (auto* word = reinterpret_cast<std::uint64_t*>(&gauges);
         word != reinterpret_cast<std::uint64_t*>(&gauges + 1); ++word) {
      *word = random() % 3 == 0 ? 0 : random() >> (24 + random() % 40);
    }
    expect_adds_up(ledger_now(counters, gauges));
    expect_adds_up(ledger_at_peak(gauges));
    if (HasFailure()) FAIL() << "case " << i;
  }
}

}  // namespace
}  // namespace gpumem::stats
