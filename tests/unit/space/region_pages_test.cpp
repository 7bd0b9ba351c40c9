// A region whose segments are ranges of addresses: holes are filled and punched page by page. Each case, then
// 10^5 random calls for each seed, checked block by block against a model that knows which pages are mapped.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/seeds.hpp"
#include "tests/unit/space/region_checks.hpp"

namespace gpumem::space {
namespace {

constexpr std::uint32_t page = 4096;  // units
constexpr std::uint64_t page_bytes = page * unit;
constexpr std::uint64_t base = 1ull << 40;
class nobody final : public segment_owner {};

struct paged : testing::Test {
  atlas where;
  nobody who;
  region space{where, &who};
  region_model model;
  std::set<std::uint64_t> mapped;  // addresses of pages

  void add(std::uint64_t pages) {
    std::uint64_t const at = base + model.segments.size() * (1ull << 36);
    ASSERT_TRUE(space.add_range(at, pages * page_bytes, 7));
    model.segments[at] = pages * page_bytes;
  }
  block& of(handle h) { return where.blocks[h]; }
  void note(handle h, bool now_mapped) {
    ASSERT_EQ(of(h).begin() % page_bytes, 0u);
    ASSERT_EQ(of(h).bytes() % page_bytes, 0u);
    for (std::uint64_t a = of(h).begin(); a < of(h).end(); a += page_bytes) {
      ASSERT_EQ(now_mapped ? mapped.insert(a).second : mapped.erase(a) == 1, true)
          << "a page twice, or never";
    }
  }
  bool grow(std::uint32_t units, std::uint32_t wished = 0) {
    region::opening const o = space.open(units, page, wished);
    if (o.middle == none) return false;
    EXPECT_LE(o.needed, of(o.middle).units);
    note(o.middle, true);
    space.fill(o);
    return true;
  }
  bool punch(std::uint32_t most) {
    handle const h = space.take_pages(page, most);
    if (h == none) return false;
    EXPECT_LE(of(h).units, most);
    note(h, false);
    space.punch(h);
    return true;
  }
  handle take(std::uint32_t units, std::uint64_t alignment = unit) {
    handle const h = space.take(done, units, true, false, alignment);
    if (h != none) model.out.insert(h);
    return h;
  }
  void put(handle h) {
    model.out.erase(h);
    space.put(h, done);
  }
  void check() {
    check_region(where, space, model, [](std::string const& what) { FAIL() << what; });
    ASSERT_EQ(space.reserved_bytes(), mapped.size() * page_bytes);
  }
};

TEST_F(paged, a_range_begins_without_memory) {
  add(8);
  check();
  EXPECT_EQ(space.reserved_bytes(), 0u);
  EXPECT_EQ(take(1), none);
  EXPECT_EQ(space.empty_segment(), nullptr);
}

TEST_F(paged, growth_goes_on_where_memory_ends) {
  add(8);
  ASSERT_TRUE(grow(100));
  handle const first = take(3000);
  ASSERT_TRUE(grow(4000));  // 1096 units are idle: one page more is enough
  EXPECT_EQ(mapped.size(), 2u);
  handle const second = take(4000);
  EXPECT_EQ(of(second).begin(), of(first).end());
  check();
}

TEST_F(paged, a_hole_is_filled_when_the_request_fits) {
  add(64);
  ASSERT_TRUE(grow(10 * page));
  handle const low = take(page), middle = take(6 * page), high = take(3 * page);
  put(middle);
  ASSERT_TRUE(punch(6 * page));
  check();
  EXPECT_EQ(space.idle_bytes(), 0u);
  ASSERT_TRUE(grow(6 * page));
  EXPECT_EQ(of(take(6 * page)).begin(), of(low).end());
  ASSERT_TRUE(grow(7 * page));
  EXPECT_EQ(of(take(7 * page)).begin(), of(high).end());
  check();
}

TEST_F(paged, pages_inside_a_block_go_and_its_ends_stay) {
  add(64);
  ASSERT_TRUE(grow(4 * page));
  handle const front = take(100), middle = take(3 * page), back = take(page - 100);
  put(middle);
  ASSERT_TRUE(punch(64 * page));
  EXPECT_FALSE(punch(64 * page));
  EXPECT_EQ(mapped.size(), 2u);
  EXPECT_EQ(space.idle_bytes(), page_bytes);
  check();
  put(front);
  put(back);
  check();
  while (punch(page)) check();
  EXPECT_EQ(space.reserved_bytes(), 0u);
  EXPECT_EQ(space.idle_bytes(), 0u);
}

TEST_F(paged, what_is_not_mapped_after_all_is_a_hole_again) {
  add(16);
  ASSERT_TRUE(grow(100));
  region::opening const o = space.open(3 * page, page, 8 * page);
  EXPECT_EQ(o.needed, 2 * page);
  EXPECT_EQ(of(o.middle).units, 8 * page);
  ASSERT_TRUE(space.shorten(o, 3 * page));
  EXPECT_EQ(of(o.middle).units, 3 * page);
  space.close(o);
  check();
  EXPECT_EQ(space.idle_bytes(), page_bytes);
}

TEST_F(paged, a_forgotten_range_takes_its_holes_along) {
  add(16);
  ASSERT_TRUE(grow(3 * page));
  take(page + 1);
  ASSERT_TRUE(punch(page));
  model.out.clear();
  model.segments.clear();
  mapped.clear();
  space.remove_segment(space.segments().front());
  check();
  EXPECT_EQ(space.open(1, page, 0).middle, none);
}

TEST_F(paged, alignment) {
  add(16);
  ASSERT_TRUE(grow(4 * page));
  take(1);
  for (std::uint64_t const alignment : {1024ull, 4096ull, 65536ull, 1ull << 20}) {
    handle const h = take(3, alignment);
    ASSERT_NE(h, none);
    EXPECT_EQ(of(h).begin() % alignment, 0u);
    EXPECT_EQ(of(h).units, 3u);
    check();
  }
  // The last fitting place is found although a surely large enough block is nowhere.
  add(16);
  handle rest = none;
  for (handle h = take(1); h != none; h = take(1)) rest = h;
  put(rest);
  check();
}

TEST_F(paged, random) {
  for (unsigned const seed : tests::seeds()) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<handle> live(model.out.begin(), model.out.end());
    add(256);
    std::uint64_t most = 0;
    for (int step = 0; step < 30'000 && !HasFatalFailure() && !HasNonfatalFailure(); ++step) {
      std::uint64_t const what = random() % 16;
      auto const size = static_cast<std::uint32_t>(1 + random() % (1u << random() % 16));
      if (what == 0 && mapped.size() < 200) {
        grow(size, random() % 4 == 0 ? 4 * page : 0);
      } else if (what == 1) {
        punch(static_cast<std::uint32_t>(page * (1 + random() % 4)));
      } else if (what == 2) {
        region::opening const o = space.open(size, page, 8 * page);
        if (o.middle != none && random() % 2 == 0) space.shorten(o, page);
        if (o.middle != none) space.close(o);
      } else if (what < 10 && live.size() < 2000) {
        handle const h = take(size, random() % 8 == 0 ? unit << random() % 12 : unit);
        if (h != none) live.push_back(h);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        put(live.back());
        live.pop_back();
      }
      most = std::max<std::uint64_t>(most, live.size());
      if (step % 16 == 0) check();
    }
    EXPECT_GT(most, 100u);
    for (handle const h : live) put(h);
    while (punch(64 * page)) {
    }
    EXPECT_EQ(space.reserved_bytes(), 0u);
    check();
  }
}

}  // namespace
}  // namespace gpumem::space
