// The map of addresses: against std::map in random order, and look-ups of held blocks while another thread
// rebuilds it.
#include "core/space/block_map.hpp"

#include <gtest/gtest.h>

#include <atomic>
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
    for (int step = 0; step < 300'000; ++step) {
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
