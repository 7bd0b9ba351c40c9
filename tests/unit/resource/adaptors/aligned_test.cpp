// Larger alignment than every block's: carved by whatever is below, fresh or used before.
#include "core/resource/adaptors/aligned.hpp"

#include "core/resource/pools/arena.hpp"
#include "core/upstream/vmm.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct alignment : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
  }
  // Allocates and frees so many sizes that blocks come from magazines, from splits and from new segments.
  void try_all(resource& below, std::uint32_t wanted, std::uint64_t threshold) {
    aligned& a = make<aligned>(wanted, threshold, below);
    for (int round = 0; round < 3; ++round) {
      std::vector<space::handle> live;
      for (std::uint64_t bytes = 1; bytes < 3 * mib; bytes = bytes * 3 / 2 + 1) {
        for (int i = 0; i < 3; ++i) {
          stream_order::slot const s = static_cast<stream_order::slot>(i);
          space::handle const h = get(a, bytes, s);
          live.push_back(h);
          EXPECT_EQ(block(h).begin() % (bytes >= threshold ? wanted : space::unit), 0u) << bytes;
          EXPECT_GE(block(h).bytes(), bytes);
        }
      }
      for (std::size_t i = 0; i < live.size(); ++i) give(a, live[i], static_cast<stream_order::slot>(i % 3));
      here->epochs.synchronize_done(here->epochs.synchronize_begins());
    }
  }
};

TEST_F(alignment, of_a_pool) {
  try_all(make_pool(), 65536, 0);
}
TEST_F(alignment, above_a_threshold_only) {
  try_all(make_pool(), 1u << 20, 100'000);
}
TEST_F(alignment, of_a_pool_over_pages) {
  try_all(make<pool>(pool_options{}, *new upstream::vmm(here->home, 0, 0)), 4u << 20, 1 * mib);
}
TEST_F(alignment, of_fixed_sizes) {
  try_all(make<fixed_size>(fixed_size_options{.block_size = 3 * mib}, here->cuda), 8192, 0);
}
TEST_F(alignment, of_an_arena) {
  auto& below = make<suballocator>(suballocator_options{}, here->cuda, "superblocks");
  try_all(make<arena>(arena_options{}, below), 131072, 4096);
}
TEST_F(alignment, of_the_driver_alone) {
  direct& d = make<direct>(here->cuda);
  try_all(d, 16u << 20, 0);
  d.give_back(give_back_scope::all);  // what was freed in stream order waits for its work
  EXPECT_EQ(driver.used(), 0u) << "every allocation went back as it had come";
  EXPECT_EQ(d.measure().idle, 0u);
}

// A block kept in a magazine may lie anywhere: the next request of its size is served from elsewhere, and the
// block stays good for others.
TEST_F(alignment, a_misaligned_block_in_a_magazine_is_left_there) {
  pool& p = make_pool({.initial_pool_size = 64 * mib});
  p.prepare();
  get(p, 512);
  space::handle const crooked = get(p, 4096);
  ASSERT_NE(block(crooked).begin() % 65536, 0u);
  give(p, crooked);
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  space::handle const straight = p.allocate({.bytes = 4096, .alignment = 65536});
  EXPECT_EQ(block(straight).begin() % 65536, 0u);
}

TEST_F(alignment, at_the_maximum_it_is_found_where_it_fits) {
  pool& p = make_pool({.initial_pool_size = 4 * mib, .maximum_pool_size = 4 * mib});
  p.prepare();
  space::handle const low = get(p, 512);
  space::handle const high = p.allocate({.bytes = 1 * mib, .alignment = 1u << 20});
  EXPECT_EQ(block(high).begin() % mib, 0u);
  give(p, low);
  EXPECT_EQ(refusal(p, 3 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  give(p, high);
  EXPECT_EQ(refusal(p, 4 * mib), CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpumem::resource
