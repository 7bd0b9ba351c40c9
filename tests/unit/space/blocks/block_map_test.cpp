// The map of addresses: against std::map in random order, and look-ups of held blocks while another thread
// rebuilds it.
#include "core/space/blocks/block_map.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/seeds.hpp"

namespace gpumem::space {
namespace {

handle make(block_table& blocks, std::uint64_t address) {
  handle const h = blocks.acquire();
  blocks[h].address.store(address);
  return h;
}

std::uint64_t resident_bytes() {
  unsigned long pages = 0;
  std::FILE* const statm = std::fopen("/proc/self/statm", "r");
  if (statm == nullptr || std::fscanf(statm, "%*u %lu", &pages) != 1) pages = 0;
  if (statm != nullptr) std::fclose(statm);
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(block_map, agrees_with_a_plain_map) {
  for (unsigned const seed : tests::seeds()) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    block_table blocks;
    block_map map(blocks);
    std::map<std::uint64_t, handle> model;
    for (int step = 0; step < 200'000; ++step) {
      // Few addresses, so that the same ones come and go, and a population that grows and shrinks.
      std::uint64_t const range = step % 40'000 < 20'000 ? 20'000 : 200;
      std::uint64_t const address = (1ull << 40) + random() % range * unit;
      auto const known = model.find(address);
      ASSERT_EQ(map.find(address), known == model.end() ? none : known->second);
      ASSERT_EQ(map.find(address + 1), none);
      if (known == model.end()) {
        handle const h = make(blocks, address);
        ASSERT_TRUE(map.insert(h));
        model.emplace(address, h);
      } else {
        map.erase(known->second);
        blocks.release(known->second);
        model.erase(known);
      }
    }
    for (auto const& [address, h] : model) ASSERT_EQ(map.find(address), h);
  }
}

// A table that has just grown is at its emptiest, and the outgrown ones beside it count most.
TEST(block_map, a_live_block_takes_64_bytes_of_host_memory) {
#if defined(GPUMEM_UNDER_ASAN) || defined(GPUMEM_UNDER_TSAN)
  GTEST_SKIP() << "the sanitizer's own memory would count";
#endif
  block_table blocks;
  block_map map(blocks);
  std::uint64_t const before = resident_bytes();
  std::uint64_t count = 0;
  for (std::uint64_t const most : {1'000u, 4'200u, 70'000u, 600'000u, 1'190'000u}) {
    for (; count < most; ++count) {
      ASSERT_TRUE(map.insert(make(blocks, (1ull << 40) + count * 3 * unit)));
    }
    EXPECT_LE(resident_bytes() - before, 64 * count + (1u << 20)) << count;
  }
  // Sizes change: as many blocks as before, elsewhere.
  for (std::uint64_t i = 0; i < count; ++i) {
    handle const h = map.find((1ull << 40) + i * 3 * unit);
    map.erase(h);
    blocks[h].address.store((2ull << 40) + i * 5 * unit);
    ASSERT_TRUE(map.insert(h));
  }
  EXPECT_LE(resident_bytes() - before, 64 * count + (1u << 20));
}

// What the router relies on: whoever holds a block finds it, whatever happens to other blocks.
TEST(block_map, always_finds_a_held_block_while_others_come_and_go) {
  block_table blocks;
  block_map map(blocks);
  std::vector<std::pair<std::uint64_t, handle>> held;
  for (std::uint64_t i = 0; i < 64; ++i) {
    held.emplace_back((1ull << 40) + i * 7 * unit, make(blocks, (1ull << 40) + i * 7 * unit));
    ASSERT_TRUE(map.insert(held.back().second));
  }
  std::atomic<bool> stop{false};
  std::atomic<int> missed{0};
  std::atomic<std::uint64_t> looks{0};
  {
    std::vector<std::jthread> finders;
    for (int f = 0; f < 3; ++f) {
      finders.emplace_back([&] {
        while (!stop.load(std::memory_order_relaxed)) {
          for (auto const& [address, h] : held) {
            if (map.find(address) != h) ++missed;
          }
          looks += held.size();
        }
      });
    }
    std::mt19937 random(7);
    std::vector<handle> others;
    for (int step = 0; step < 300'000 || looks.load(std::memory_order_relaxed) == 0; ++step) {
      if (others.size() < 4000 && (random() % 2 != 0 || others.empty())) {
        handle const h = make(blocks, (1ull << 41) + static_cast<std::uint64_t>(step) * unit);
        ASSERT_TRUE(map.insert(h));
        others.push_back(h);
      } else {
        std::swap(others[random() % others.size()], others.back());
        map.erase(others.back());
        blocks.release(others.back());
        others.pop_back();
      }
    }
    stop = true;
  }
  EXPECT_EQ(missed.load(), 0);
  EXPECT_GT(looks.load(), 0u);
}

TEST(block_map, erasing_what_is_not_there_changes_nothing) {
  block_table blocks;
  block_map map(blocks);
  handle const there = make(blocks, 1ull << 30);
  handle const stranger = make(blocks, 1ull << 31);
  map.erase(stranger);
  ASSERT_TRUE(map.insert(there));
  map.erase(stranger);
  EXPECT_EQ(map.find(1ull << 30), there);
  EXPECT_EQ(map.find(1ull << 31), none);
}

}  // namespace
}  // namespace gpumem::space
