// The ledger adds up for any counters, also torn and senseless ones, and no row is ever negative.
#include "core/stats/page/ledger.hpp"

#include <gtest/gtest.h>

#include <random>

namespace gpumem::stats {
namespace {

void expect_adds_up(ledger const& rows) {
  EXPECT_EQ(rows.requested + rows.rounding + rows.pending + rows.cached, rows.reserved);
  EXPECT_GE(rows.reserved, rows.requested);
  ASSERT_EQ(rows.unseen.has_value(), rows.in_use.has_value());
  if (rows.in_use) {
    EXPECT_LE(rows.elsewhere, rows.reserved + rows.observed);
    EXPECT_EQ(rows.reserved + rows.observed - rows.elsewhere + *rows.unseen, *rows.in_use);
  }
}

TEST(ledger, a_plain_case) {
  device_counters counters{};
  counters.allocated_requested = 1000, counters.allocated_handed = 1536;
  counters.freed_requested = 400, counters.freed_handed = 512;
  device_gauges gauges{};
  gauges.reserved = 4096, gauges.pending = 300, gauges.observed = 1000, gauges.total = 10000;
  gauges.used = 6000, gauges.used_known = 5096;
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

// The driver said 900 more than was known then; since then 2,000 went back.
TEST(ledger, what_is_unseen_is_of_one_moment) {
  device_gauges gauges{};
  gauges.reserved = 1000, gauges.observed = 0, gauges.total = 10000;
  gauges.used = 3900, gauges.used_known = 3000, gauges.first_unseen = 900;
  ledger const rows = ledger_now(device_counters{}, gauges);
  EXPECT_EQ(rows.unseen, 900u);
  EXPECT_EQ(rows.in_use, 1900u);
  EXPECT_EQ(rows.free, 8100u);
}

// Managed memory that nobody touched is on no device: the context's own memory does not vanish behind it.
TEST(ledger, managed_memory_lies_elsewhere) {
  device_gauges gauges{};
  gauges.observed = gauges.movable = 2000;
  gauges.used = 900, gauges.used_known = gauges.used_movable = 2000, gauges.first_unseen = 900;
  ledger rows = ledger_now(device_counters{}, gauges);
  EXPECT_EQ(rows.elsewhere, 2000u);
  EXPECT_EQ(rows.unseen, 900u);
  EXPECT_EQ(rows.in_use, 900u);
  gauges.used = 1900;  // half of it was touched
  rows = ledger_now(device_counters{}, gauges);
  EXPECT_EQ(rows.elsewhere, 1000u);
  EXPECT_EQ(rows.unseen, 900u);
  gauges.observed = gauges.movable = 0;  // it was freed since
  rows = ledger_now(device_counters{}, gauges);
  EXPECT_EQ(rows.elsewhere, 0u);
  EXPECT_EQ(rows.in_use, 900u);
}

TEST(ledger, blocks_that_ended_with_their_context_are_out) {
  device_counters counters{};
  counters.allocated_requested = 1000, counters.allocated_handed = 1024;
  counters.lost_requested = 1000, counters.lost_handed = 1024;
  EXPECT_EQ(ledger_now(counters, device_gauges{}).requested, 0u);
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
