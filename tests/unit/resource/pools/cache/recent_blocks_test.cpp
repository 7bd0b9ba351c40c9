// What a thread remembers of its last blocks: right, or nothing.
#include "core/resource/pools/cache/recent_blocks.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <optional>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/threads/processor_hints.hpp"

namespace gpumem::resource {
namespace {

// Under `ulimit -v` there may be no room for blocks at all: every free is then the driver's.
TEST(recent_blocks, without_a_table_of_blocks_none_is_remembered) {
#ifdef GPUMEM_UNDER_TSAN
  GTEST_SKIP() << "the thread sanitizer itself needs addresses";
#endif
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::optional<space::block_registry> where;
  rlimit const nothing{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &nothing), 0);
  where.emplace();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_EQ(where->blocks.acquire(), space::none);
  EXPECT_EQ(recent_blocks{}.find(*where, 0x1000).h, space::none);
}

struct recent_blocks_test : testing::Test {
  recent_blocks_test() {
    h = where->blocks.acquire();
    where->blocks[h].mark(space::mapped);
    place(home);
    memo.remember(home, h, owner, own, where->segments.removals());
  }
  void place(std::uint64_t address) {
    where->blocks[h].address.store(address);
    where->blocks[h].now.store(space::state::live);
  }

  static constexpr std::uint64_t home = 1ull << 40;
  std::unique_ptr<space::block_registry> where = std::make_unique<space::block_registry>();
  recent_blocks memo;
  space::handle h = space::none;
  resource* const owner = reinterpret_cast<resource*>(this);  // neither is ever used
  magazine* const own = reinterpret_cast<magazine*>(this);
};

TEST_F(recent_blocks_test, a_live_block_its_owner_and_magazine) {
  EXPECT_EQ(memo.find(*where, home).h, h);
  EXPECT_EQ(memo.find(*where, home).owner, owner);
  EXPECT_EQ(memo.find(*where, home).own, own);
  where->blocks[h].now.store(space::state::cached);
  EXPECT_EQ(memo.find(*where, home).h, space::none);
}

// Freed, and its handle used again for a block of another resource, whose address has the same place here.
TEST_F(recent_blocks_test, never_by_a_handle_that_names_another_block) {
  for (std::uint64_t i = 1; i < 1000; ++i) {
    place(home + i * space::unit);
    ASSERT_EQ(memo.find(*where, home + i * space::unit).h, space::none) << i;
    ASSERT_EQ(memo.find(*where, home).h, space::none) << i;
  }
}

// The same at the very moment: a handle that nobody has keeps its last address until it names another block,
// and what this thread frees at that address is a block that another one was handed.
TEST_F(recent_blocks_test, never_by_a_handle_that_gets_another_block_meanwhile) {
  // On a busy machine a round takes as long as two threads take to have a processor after one another.
  constexpr int rounds = 200'000, least = 2'000;
  std::uint64_t const enough = base::now_ns() + 3'000'000'000;
  space::block& b = where->blocks[h];
  std::atomic<int> begun{0}, ended{0};
  constexpr int over = -1;
  std::jthread const other([&] {
    for (int round = 1; round <= rounds; ++round) {
      int asked = 0;
      for (int spins = 0; (asked = begun.load(std::memory_order_acquire)) != round && asked != over; ++spins)
        spins < 200 ? base::pause() : std::this_thread::yield();
      if (asked == over) return;
      b.address.store(2 * home, std::memory_order_relaxed);
      b.now.store(space::state::live, std::memory_order_release);
      ended.store(round, std::memory_order_release);
    }
  });
  int wrong = 0;
  for (int round = 1; round <= rounds && (round <= least || base::now_ns() < enough); ++round) {
    b.now.store(space::state::unused, std::memory_order_relaxed);
    b.address.store(home, std::memory_order_relaxed);
    begun.store(round, std::memory_order_release);
    for (int looks = 0; ended.load(std::memory_order_acquire) != round; ++looks) {
      wrong += memo.find(*where, home).h != space::none ? 1 : 0;
      if (looks > 200) std::this_thread::yield();
    }
  }
  begun.store(over, std::memory_order_release);
  EXPECT_EQ(wrong, 0);
}

// The address may be of another resource's segment since.
TEST_F(recent_blocks_test, no_owner_once_a_segment_was_removed) {
  where->segments.remove(where->segments.add(2 * home, 1 << 20, nullptr));
  EXPECT_EQ(memo.find(*where, home).h, h);
  EXPECT_EQ(memo.find(*where, home).owner, nullptr);
  EXPECT_EQ(memo.find(*where, home).own, nullptr);
}

}  // namespace
}  // namespace gpumem::resource
