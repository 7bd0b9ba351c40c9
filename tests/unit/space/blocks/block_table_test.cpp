// The table of blocks: fresh handles are zeroed, released ones come back, a full table says so.
#include "core/space/blocks/block_table.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

namespace gpumem::space {
namespace {

TEST(block_table, gives_distinct_handles_that_are_never_none) {
  block_table blocks;
  std::set<handle> seen;
  for (int i = 0; i < 10'000; ++i) {
    handle const h = blocks.acquire();
    ASSERT_NE(h, none);
    ASSERT_TRUE(seen.insert(h).second);
  }
}

// Each may be another thread's: a processor fetches lines of memory by pairs.
TEST(block_table, blocks_made_one_after_the_other_share_no_lines) {
  block_table blocks;
  std::set<std::uintptr_t> pairs;
  for (int i = 0; i < 4'000; ++i) {
    auto const at = reinterpret_cast<std::uintptr_t>(&blocks[blocks.acquire()]);
    ASSERT_EQ(at / 64, (at + sizeof(block) - 1) / 64);
    ASSERT_TRUE(pairs.insert(at / 128).second) << "block " << i;
  }
}

TEST(block_table, reuses_what_was_released_and_clears_it) {
  block_table blocks;
  handle const h = blocks.acquire();
  block& b = blocks[h];
  b.address.store(4096);
  b.before = b.after = b.next = b.previous = b.later = b.earlier = 7;
  b.units = b.segment = b.freed = 7;
  b.where = 7;
  b.mark(mapped | exported);
  blocks.release(h);
  EXPECT_EQ(b.now.load(), state::unused);
  ASSERT_EQ(blocks.acquire(), h);
  EXPECT_EQ(b.begin(), 0u);
  for (handle const field : {b.before, b.after, b.next, b.previous, handle{b.later}, b.earlier})
    EXPECT_EQ(field, none);
  EXPECT_EQ(b.units + b.segment + b.freed, 0u);
  EXPECT_EQ(b.where, done);
  EXPECT_FALSE(b.is(mapped | exported));
}

// In a child with little address space, so that the table is a small one.
TEST(block_table, says_none_when_full_and_goes_on_after_a_release) {
  pid_t const child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    rusage now{};
    getrusage(RUSAGE_SELF, &now);
    FILE* const sizes = std::fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (sizes == nullptr || std::fscanf(sizes, "%lu", &pages) != 1) _exit(2);
    std::uint64_t const limit = pages * 4096 + (16ull << 20);
    rlimit const narrow{limit, limit};
    setrlimit(RLIMIT_AS, &narrow);
    block_table blocks;
    std::uint64_t count = 0;
    handle last = none;
    for (handle h = blocks.acquire(); h != none; h = blocks.acquire()) {
      last = h;
      ++count;
    }
    if (count < 4095 || count > (16u << 20) / sizeof(block)) _exit(3);
    blocks.release(last);
    if (blocks.acquire() != last) _exit(4);
    _exit(blocks.acquire() == none ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
#if defined(GPUMEM_UNDER_ASAN) || defined(GPUMEM_UNDER_TSAN)
  GTEST_SKIP() << "a sanitizer's shadow does not live under a limit of address space";
#endif
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(block_table, serves_threads_at_once) {
  block_table blocks;
  std::vector<std::vector<handle>> got(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : got) {
      threads.emplace_back([&blocks, &mine] {
        for (int i = 0; i < 2000; ++i) {
          mine.push_back(blocks.acquire());
          if (i % 3 != 0) continue;
          blocks.release(mine.back());
          mine.pop_back();
        }
      });
    }
  }
  std::set<handle> all;
  for (auto const& mine : got) {
    for (handle const h : mine) EXPECT_TRUE(all.insert(h).second);
  }
}

}  // namespace
}  // namespace gpumem::space
