// Streams by identity: small slots, given again only when recycled.
#include "core/stream_order/streams.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

namespace gpumem::stream_order {
namespace {

TEST(streams, one_slot_for_each_id_and_never_the_none) {
  streams known;
  std::set<slot> seen;
  for (std::uint64_t id = 0; id < 100; ++id) EXPECT_TRUE(seen.insert(known.slot_of(id * 1000)).second);
  EXPECT_FALSE(seen.contains(no_slot));
  for (std::uint64_t id = 0; id < 100; ++id) EXPECT_TRUE(seen.contains(known.slot_of(id * 1000)));
}

TEST(streams, a_forgotten_slot_serves_nobody_until_it_is_recycled) {
  streams known;
  slot const first = known.slot_of(7);
  EXPECT_EQ(known.forget(8), no_slot);
  EXPECT_EQ(known.forget(7), first);
  EXPECT_EQ(known.forget(7), no_slot);
  slot const other = known.slot_of(7);
  EXPECT_NE(other, first);
  known.recycle(first);
  known.recycle(no_slot);
  EXPECT_EQ(known.slot_of(9), first);
  EXPECT_NE(known.slot_of(10), no_slot);
}

TEST(streams, a_stream_that_goes_is_named_by_its_handle) {
  streams known;
  int handles[2] = {};
  auto* const first = reinterpret_cast<CUstream>(&handles[0]);
  auto* const second = reinterpret_cast<CUstream>(&handles[1]);
  slot const of_first = known.slot_of(7, first);
  EXPECT_EQ(known.slot_of(7, first), of_first);
  EXPECT_EQ(known.forget(second), no_slot) << "never seen";
  EXPECT_EQ(known.forget(first), of_first);
  EXPECT_EQ(known.forget(first), no_slot);
  // The handle serves another stream: the later one is meant.
  known.slot_of(8, second);
  slot const later = known.slot_of(9, second);
  EXPECT_EQ(known.forget(second), later);
}

TEST(streams, says_so_when_all_are_taken) {
  streams known;
  for (std::uint64_t id = 1; id < most_slots; ++id) ASSERT_NE(known.slot_of(id), no_slot) << id;
  EXPECT_EQ(known.slot_of(most_slots), no_slot);
  EXPECT_NE(known.slot_of(5), no_slot);
  known.recycle(known.forget(5));
  EXPECT_NE(known.slot_of(most_slots), no_slot);
  EXPECT_EQ(known.slot_of(5), no_slot);
}

// The last test of handles in this process: what it says is of the process.
TEST(streams, handles_are_known_until_a_green_context_was_made) {
  streams known;
  auto const handle = reinterpret_cast<CUstream>(0x1000);
  slot const named = known.slot_of(1, handle), unnamed = known.slot_of(2);
  EXPECT_EQ(known.handle_of(named), handle);
  EXPECT_EQ(known.handle_of(unnamed), nullptr);
  streams::green_context_made();
  EXPECT_EQ(known.handle_of(named), nullptr);
}

TEST(streams, threads_agree_on_the_slot_of_a_stream) {
  streams known;
  std::array<std::array<slot, 64>, 4> seen{};
  {
    std::vector<std::jthread> threads;
    for (auto& mine : seen) {
      threads.emplace_back([&] {
        for (std::uint64_t id = 0; id < mine.size(); ++id) mine[id] = known.slot_of(id);
      });
    }
  }
  for (auto const& mine : seen) EXPECT_EQ(mine, seen[0]);
}

}  // namespace
}  // namespace gpumem::stream_order
