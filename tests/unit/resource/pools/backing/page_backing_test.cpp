// Pages by themselves: where new ones go, in what pieces, and which idle ones go back for them.
#include "core/resource/pools/backing/page_backing.hpp"

#include "tests/unit/resource/pools/backing/backing_fixture.hpp"

namespace gpumem::resource {
namespace {

struct page_backing_test : backing_fixture {
  page_backing& backing_with(suballocator_options const& options) {
    pool->options = options;
    pool->options.name = "mine";
    return *new page_backing(made_of(), pool->source);
  }
  space::handle grow(page_backing& by, std::uint64_t bytes) { return by.grow(held, {.units = units(bytes)}); }
  void put(space::handle h) { pool->region.put(h, space::done); }
  std::vector<std::uint64_t> piece_sizes() const {
    std::vector<std::uint64_t> sizes;
    for (auto const& [address, bytes] : pool->source.pieces) sizes.push_back(bytes);
    return sizes;
  }
};

TEST_F(page_backing_test, a_large_block_is_a_few_pieces_of_its_own) {
  auto& by = backing_with({});
  space::handle const h = grow(by, 600 * mib);
  ASSERT_NE(h, space::none);
  EXPECT_EQ(block(h).bytes(), 600 * mib);
  EXPECT_EQ(piece_sizes(), (std::vector{256 * mib, 256 * mib, 88 * mib}));
}

TEST_F(page_backing_test, the_initial_size_comes_page_by_page) {
  auto& by = backing_with({.initial = 6 * mib});
  by.prepare(held);
  EXPECT_EQ(piece_sizes(), (std::vector{2 * mib, 2 * mib, 2 * mib}));
  EXPECT_EQ(pool->region.idle_bytes(), 6 * mib);
}

TEST_F(page_backing_test, an_idle_neighbour_is_a_part_of_the_new_block) {
  auto& by = backing_with({});
  put(grow(by, 8 * mib));
  space::handle const h = grow(by, 12 * mib);
  EXPECT_EQ(pool->source.held(), 12 * mib) << "4 MiB beside the 8 MiB";
  EXPECT_EQ(block(h).bytes(), 12 * mib);
}

TEST_F(page_backing_test, where_the_driver_has_less_smaller_pieces) {
  auto& by = backing_with({});
  grow(by, 2 * mib);
  pool->source.capacity = 64 * mib;
  EXPECT_EQ(refused(by, {.units = units(100 * mib)}), "driver: no pages for 100.00 MiB");
  EXPECT_GT(pool->region.idle_bytes(), 50 * mib) << "what there was is for others";
}

TEST_F(page_backing_test, idle_pieces_go_back_for_new_ones_at_the_maximum) {
  auto& by = backing_with({.maximum = 20 * mib});
  space::handle const a = grow(by, 8 * mib);
  grow(by, 4 * mib);
  put(a);
  ASSERT_NE(grow(by, 16 * mib), space::none);
  EXPECT_EQ(pool->source.held(), 20 * mib);
  EXPECT_EQ(refused(by, {.units = units(2 * mib)}),
            "pool \"mine\": maximum_pool_size 20.00 MiB, reserved 20.00 MiB, asked 2.00 MiB");
  EXPECT_EQ(refused(by, {.units = units(22 * mib)}),
            "pool \"mine\": maximum_pool_size 20.00 MiB, reserved 20.00 MiB, asked 22.00 MiB");
}

TEST_F(page_backing_test, gives_idle_pieces_back_whole) {
  auto& by = backing_with({});
  space::handle const a = grow(by, 8 * mib), b = grow(by, 8 * mib);
  put(a);
  EXPECT_EQ(by.release_empty(held, 4 * mib, true), 8 * mib) << "one piece, which goes whole";
  put(b);
  EXPECT_EQ(by.release_empty(held, 0, true), 8 * mib);
  EXPECT_EQ(pool->source.held(), 0u);
}

TEST_F(page_backing_test, a_refused_range_of_addresses_leaves_all_as_it_was) {
  auto& by = backing_with({});
  EXPECT_EQ(refused(by, {.units = units(65536 * mib) + 4096}), "scripted: no addresses");
  EXPECT_NE(grow(by, 2 * mib), space::none);
}

}  // namespace
}  // namespace gpumem::resource
