// A region whose segments are ranges of addresses: holes are filled and punched in pieces of whole pages.
// Each case, then 10^5 random calls for each seed, checked block by block against a model that knows which
// pages are mapped, and in which piece.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/seeds.hpp"
#include "tests/unit/space/region_checks.hpp"

namespace gpumem::space {
namespace {

constexpr std::uint32_t page = 4096;  // units
constexpr std::uint64_t page_bytes = page * unit;

struct paged : testing::Test {
  block_registry where;
  nobody who;
  region space{where, &who};
  region_model model;
  std::map<std::uint64_t, std::uint64_t> mapped;  // address of a page -> begin of its piece

  void add(std::uint64_t pages) {
    std::uint64_t const at = first_address + model.segments.size() * (1ull << 36);
    ASSERT_TRUE(space.add_range(at, pages * page_bytes, 7));
    model.segments[at] = pages * page_bytes;
  }
  block& of(handle h) { return where.blocks[h]; }
  // Pieces of `size` pages while there are so many, then the rest.
  void note_mapped(handle h, std::uint64_t size) {
    std::vector<std::uint64_t> pieces;
    for (std::uint64_t at = of(h).begin(); at < of(h).end(); at += pieces.back()) {
      pieces.push_back(std::min(size * page_bytes, of(h).end() - at));
      for (std::uint64_t a = at; a < at + pieces.back(); a += page_bytes)
        ASSERT_TRUE(mapped.emplace(a, at).second) << "a page twice";
    }
    ASSERT_TRUE(space.lay(of(h).begin(), page, pieces));
  }
  void note_gone(handle h) {
    ASSERT_EQ(of(h).begin() % page_bytes, 0u);
    ASSERT_EQ(of(h).bytes() % page_bytes, 0u);
    ASSERT_EQ(mapped[of(h).begin()], of(h).begin()) << "a piece that begins before";
    auto const behind = mapped.find(of(h).end());
    ASSERT_TRUE(behind == mapped.end() || behind->second == behind->first) << "a piece that goes on behind";
    for (std::uint64_t a = of(h).begin(); a < of(h).end(); a += page_bytes) ASSERT_EQ(mapped.erase(a), 1u);
  }
  bool grow(std::uint32_t units, std::uint32_t wished = 0, std::uint64_t piece = 1, bool whole = false) {
    region::opening const o = space.open(units, page, wished, whole);
    if (o.middle == none) return false;
    EXPECT_LE(o.needed, of(o.middle).units);
    EXPECT_LE(o.own, o.needed);
    note_mapped(o.middle, piece);
    handle const made = space.fill(o);
    EXPECT_GE(of(made).units, units);
    return true;
  }
  bool punch(std::uint32_t wanted) {
    std::uint64_t const most = space.whole_pages(page, ~0ull);
    handle const h = space.take_pages(page, wanted);
    EXPECT_EQ(h == none, most == 0);
    if (h == none) return false;
    note_gone(h);
    space.punch(h);
    return true;
  }
  // No piece that was idle as a whole is in use in part now.
  handle take_whole(std::uint32_t units, std::uint64_t alignment = unit) {
    std::uint64_t const before = space.whole_pages(page, ~0ull);
    bool would_split_piece = false;
    handle const h = space.take_whole(units, page, 0, false, alignment, would_split_piece);
    if (h == none) return none;
    EXPECT_FALSE(would_split_piece);
    model.out.insert(h);
    std::uint64_t const first = of(h).begin() / page_bytes * page_bytes;
    std::uint64_t touched = 0;
    for (std::uint64_t a = first; a < of(h).end(); a += page_bytes) touched += page_bytes;
    EXPECT_LE(before - space.whole_pages(page, ~0ull), touched);
    return h;
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
  region::opening const o = space.open(3 * page, page, 8 * page, false);
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
  EXPECT_EQ(space.open(1, page, 0, false).middle, none);
}

TEST_F(paged, a_piece_goes_only_whole) {
  add(64);
  ASSERT_TRUE(grow(8 * page, 0, 4));
  handle const front = take(page), rest = take(7 * page);
  put(rest);
  EXPECT_EQ(space.whole_pages(page, ~0ull), 4 * page_bytes)
      << "three pages of the first piece stay with the fourth";
  ASSERT_TRUE(punch(page));
  EXPECT_EQ(mapped.size(), 4u) << "all four of the second one, for one that was wanted";
  EXPECT_FALSE(punch(page));
  check();
  put(front);
  ASSERT_TRUE(punch(page));
  EXPECT_EQ(space.reserved_bytes(), 0u);
  check();
}

TEST_F(paged, an_idle_piece_is_left_whole_where_that_is_asked_for) {
  add(64);
  ASSERT_TRUE(grow(8 * page, 0, 4));
  bool would_split_piece = false;
  EXPECT_EQ(space.take_whole(page, page, 0, false, unit, would_split_piece), none);
  EXPECT_TRUE(would_split_piece);
  handle const first = take_whole(4 * page);
  ASSERT_NE(first, none) << "up to where the next one begins";
  handle const part = take(page);
  ASSERT_NE(take_whole(page), none) << "of one that is in use already";
  EXPECT_EQ(space.take_whole(5 * page, page, 0, false, unit, would_split_piece), none);
  EXPECT_FALSE(would_split_piece) << "there is no room at all";
  put(part);
  put(first);
  check();
}

TEST_F(paged, a_piece_as_large_as_the_block_would_get_serves_it) {
  add(64);
  ASSERT_TRUE(grow(8 * page, 0, 8));
  bool would_split_piece = false;
  EXPECT_EQ(space.take_whole(7 * page, page, page - 1, false, unit, would_split_piece), none);
  EXPECT_TRUE(would_split_piece);
  EXPECT_EQ(space.take_whole(7 * page + 1, page, 0, false, unit, would_split_piece), none);
  EXPECT_TRUE(would_split_piece);
  handle const most = space.take_whole(7 * page + 1, page, page - 1, false, unit, would_split_piece);
  ASSERT_NE(most, none) << "eight pages, as new ones would be";
  EXPECT_FALSE(would_split_piece);
  model.out.insert(most);
  put(most);
  check();
}

TEST_F(paged, what_only_one_block_will_lie_in) {
  add(64);
  region::opening o = space.open(page + 1, page, 0, true);
  EXPECT_EQ(o.needed, 2 * page);
  EXPECT_EQ(o.own, page) << "the second page is shared with the next block";
  space.close(o);
  o = space.open(2 * page, page, 4 * page, true);
  EXPECT_EQ(o.own, 2 * page);
  space.close(o);
  check();
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
        grow(size, random() % 4 == 0 ? 4 * page : 0, 1 + random() % 6, random() % 2 == 0);
      } else if (what == 1) {
        punch(static_cast<std::uint32_t>(page * (1 + random() % 4)));
      } else if (what == 2) {
        region::opening const o = space.open(size, page, 8 * page, false);
        if (o.middle != none && random() % 2 == 0) space.shorten(o, page);
        if (o.middle != none) space.close(o);
      } else if (what < 10 && live.size() < 2000) {
        std::uint64_t const alignment = random() % 8 == 0 ? unit << random() % 12 : unit;
        handle const h = random() % 4 == 0 ? take_whole(size, alignment) : take(size, alignment);
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
