// What a thread remembers of streams: as many as it has places for, wherever their handles fall.
#include <gtest/gtest.h>

#include "core/route/router_state.hpp"

namespace gpumem::route {
namespace {

CUstream handle(std::uint64_t number) {
  return reinterpret_cast<CUstream>(0x5500'0000'0000 + number * 0x10);
}

context_entry* entry(std::uint64_t number) {  // only compared
  return reinterpret_cast<context_entry*>(0x1000 + number * 0x40);
}

TEST(route_memo, six_streams_are_known_wherever_their_handles_fall) {
  for (std::uint64_t distance = 1; distance < 2000; ++distance) {
    route_memo memo;
    for (std::uint64_t i = 0; i < 6; ++i)
      memo.keep(handle(i * distance), nullptr, {entry(i), static_cast<stream_order::slot>(i + 1)}, 1);
    for (std::uint64_t i = 0; i < 6; ++i) {
      stream_place const found = memo.find(handle(i * distance), nullptr, 1);
      ASSERT_EQ(found.entry, entry(i)) << "stream " << i << ", handles " << distance * 0x10 << " bytes apart";
      ASSERT_EQ(found.slot, i + 1);
    }
  }
}

TEST(route_memo, a_stream_is_of_the_context_that_was_current) {
  route_memo memo;
  auto* const one = reinterpret_cast<CUcontext>(0x10);
  auto* const other = reinterpret_cast<CUcontext>(0x20);
  memo.keep(CU_STREAM_LEGACY, one, {entry(1), 1}, 1);
  EXPECT_EQ(memo.find(CU_STREAM_LEGACY, other, 1).entry, nullptr);
  memo.keep(CU_STREAM_LEGACY, other, {entry(2), 2}, 1);
  EXPECT_EQ(memo.find(CU_STREAM_LEGACY, one, 1).entry, entry(1));
  EXPECT_EQ(memo.find(CU_STREAM_LEGACY, other, 1).entry, entry(2));
}

TEST(route_memo, all_is_forgotten_when_a_stream_came_or_went) {
  route_memo memo;
  memo.keep(handle(1), nullptr, {entry(1), 1}, 1);
  EXPECT_EQ(memo.find(handle(1), nullptr, 2).entry, nullptr);
  memo.keep(handle(2), nullptr, {entry(2), 2}, 2);
  EXPECT_EQ(memo.find(handle(1), nullptr, 2).entry, nullptr);
}

// A thread with more streams than places: the latest ones are known, and no place is of two streams.
TEST(route_memo, of_many_streams_the_latest_is_known) {
  route_memo memo;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    memo.keep(handle(i), nullptr, {entry(i), 1}, 1);
    ASSERT_EQ(memo.find(handle(i), nullptr, 1).entry, entry(i));
    for (std::uint64_t before = 0; before < i; ++before) {
      context_entry* const known = memo.find(handle(before), nullptr, 1).entry;
      ASSERT_TRUE(known == nullptr || known == entry(before));
    }
  }
}

}  // namespace
}  // namespace gpumem::route
