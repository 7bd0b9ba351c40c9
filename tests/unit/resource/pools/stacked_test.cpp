// Resources upon resources: bins over a pool, fixed sizes over a pool, and no pool at all.
#include "core/upstream/vmm.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

// Events are done when asked for: out of memory waits for all of them.
struct stacked : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
  }
};

TEST_F(stacked, fixed_size_hands_out_its_size_and_refuses_more) {
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = 3000}, here->cuda);
  space::handle const a = get(f, 1), b = get(f, 3000);
  EXPECT_EQ(block(a).bytes(), 3072u);
  EXPECT_EQ(block(b).bytes(), 3072u);
  EXPECT_EQ(refusal(f, 3001), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(stacked, fixed_size_preallocates_what_it_is_told) {
  fixed_size& f =
      make<fixed_size>(fixed_size_options{.block_size = 1 * mib, .blocks_to_preallocate = 10}, here->cuda);
  f.prepare();
  EXPECT_EQ(driver.used(), 10 * mib);
  for (int i = 0; i < 10; ++i) get(f, 1 * mib);
  EXPECT_EQ(driver.used(), 10 * mib);
}

TEST_F(stacked, fixed_size_preallocates_pages_too) {
  auto& pages = below<upstream::vmm>(here->home, 0u, 0u);
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = mib, .blocks_to_preallocate = 8}, pages);
  f.prepare();
  EXPECT_EQ(f.reserved(), 8 * mib);
  EXPECT_EQ(f.measure().idle, 8 * mib);
}

// Each resource marks its own block: the pool's, of which the slab is made, serves nobody else either.
TEST_F(stacked, an_export_marks_the_block_and_the_one_that_it_lies_in) {
  pool& p = make_pool({.initial_pool_size = 16 * mib});
  p.prepare();
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = 4096}, p);
  get(f, 4096);
  space::handle const mine = get(f, 4096);
  std::uint64_t const at = block(mine).begin();
  f.exported(at);
  p.exported(at);
  EXPECT_TRUE(block(mine).is(space::exported));
  space::handle slab = here->where.segments.containing(at, &p)->first;
  while (slab != space::none && at >= block(slab).end()) slab = block(slab).after;
  ASSERT_NE(slab, space::none);
  EXPECT_EQ(block(slab).bytes(), 1 * mib);
  EXPECT_TRUE(block(slab).is(space::exported));
}

TEST_F(stacked, slabs_over_a_pool_come_from_it_and_go_back_to_it) {
  pool& p = make_pool({.initial_pool_size = 16 * mib});
  p.prepare();
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = 4096}, p);
  space::handle const a = get(f, 4096);
  EXPECT_EQ(driver.used(), 16 * mib);
  EXPECT_EQ(p.measure().idle, 15 * mib);
  EXPECT_EQ(f.measure().idle, 1 * mib - 4096);
  EXPECT_EQ(p.idle(), 15 * mib);
  EXPECT_EQ(f.idle(), 1 * mib - 4096);
  EXPECT_EQ(&owner_of(here->where, a), &f);
  std::uint64_t const at = block(a).begin();
  EXPECT_EQ(
      owner_of(here->where.segments.containing(at)).block_at(*here->where.segments.containing(at).in, at), a);
  give(f, a);
  EXPECT_EQ(f.give_back(give_back_scope::all) + p.give_back(give_back_scope::all), 17 * mib);
  EXPECT_EQ(driver.used(), 0u);
  EXPECT_EQ(here->where.segments.containing(at).in, nullptr);
}

// Slabs that the bins keep lie between larger blocks.
TEST_F(stacked, what_bins_have_idle_goes_back_to_their_pool_before_it_grows) {
  pool& p = make_pool({.initial_pool_size = 128 * mib});
  p.prepare();
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = mib}, p);
  fixed_size& preallocated =
      make<fixed_size>(fixed_size_options{.block_size = mib, .blocks_to_preallocate = 8}, p);
  preallocated.prepare();
  p.lends_to(f);
  p.lends_to(preallocated);
  std::vector<space::handle> all;
  for (int i = 0; i < 16; ++i) all.push_back(get(f, mib));
  for (space::handle const h : all) give(f, h);
  EXPECT_EQ(f.reserved(), 16 * mib);
  space::handle const most = get(p, 118 * mib);
  EXPECT_EQ(driver.allocations(), 1u);
  EXPECT_EQ(f.reserved(), 0u);
  EXPECT_EQ(preallocated.reserved(), 8 * mib) << "as it is told";
  give(p, most);
  get(f, mib);
  get(p, 118 * mib);
  EXPECT_EQ(driver.allocations(), 2u) << "a slab in use stays";
}

TEST_F(stacked, nor_does_it_before_its_work_is_done_or_where_it_is_of_no_use) {
  driver.manual_events(true);
  pool& p = make_pool({.initial_pool_size = 128 * mib});
  p.prepare();
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = mib}, p);
  p.lends_to(f);
  give(f, get(f, mib));
  get(p, 122 * mib);
  EXPECT_EQ(driver.allocations(), 2u) << "the GPU works on it";
  driver.finish_all();
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  get(p, 512 * mib);
  EXPECT_EQ(f.reserved(), 8 * mib) << "all there is would not be enough";
}

// The base of the slab's hidden block and of its first block are one address: the map must know only the
// latter.
TEST_F(stacked, the_map_knows_blocks_not_slabs) {
  pool& p = make_pool();
  space::handle const plain = get(p, 2 * mib);
  std::uint64_t const at = block(plain).begin();
  give(p, plain);
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  driver.set_capacity(2 * mib);
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = 1 * mib}, p);
  std::vector<space::handle> all;
  while (all.size() < 2) all.push_back(get(f, 1 * mib));
  EXPECT_EQ(owner_of(here->where, here->where.map.find(at)).home().device, 0);
  EXPECT_EQ(&owner_of(here->where, here->where.map.find(at)), &f);
}

TEST_F(stacked, binning_sends_each_size_to_its_bin) {
  pool& p = make_pool();
  fixed_size& small = make<fixed_size>(fixed_size_options{.block_size = 1024}, p);
  fixed_size& middle = make<fixed_size>(fixed_size_options{.block_size = 64 << 10}, p);
  binning& top = make<binning>(std::vector<binning::bin>{{1024, &small}, {64 << 10, &middle}}, p);
  auto const owner = [&](std::uint64_t bytes) { return &owner_of(here->where, get(top, bytes)); };
  EXPECT_EQ(owner(1), &small);
  EXPECT_EQ(owner(1024), &small);
  EXPECT_EQ(owner(1025), &middle);
  EXPECT_EQ(owner(64 << 10), &middle);
  EXPECT_EQ(owner((64 << 10) + 1), &p);
  space::handle const h = get(top, 100);
  give(top, h);
  EXPECT_EQ(small.measure().pending, 1024u);
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  EXPECT_EQ(get(top, 100), h);
}

TEST_F(stacked, direct_is_one_driver_allocation_for_each_block) {
  direct& d = make<direct>(here->cuda);
  space::handle const a = get(d, 1000), b = get(d, 5 * mib);
  EXPECT_EQ(driver.allocations(), 2u);
  EXPECT_EQ(driver.used(), 1024 + 5 * mib);
  std::uint64_t const at = block(a).begin();
  give(d, a);
  EXPECT_EQ(driver.allocations(), 1u);
  EXPECT_EQ(here->where.map.find(at), space::none);
  give(d, b);
  EXPECT_EQ(driver.used(), 0u);
  driver.set_capacity(1 * mib);
  EXPECT_EQ(refusal(d, 2 * mib), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(stacked, an_upstream_that_fails_below_a_pool_below_bins) {
  driver.set_capacity(4 * mib);
  pool& p = make_pool();
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = 1 * mib}, p);
  std::vector<space::handle> all;
  for (int i = 0; i < 4; ++i) all.push_back(get(f, 1 * mib));
  EXPECT_EQ(refusal(f, 1 * mib), CUDA_ERROR_OUT_OF_MEMORY);
  give(f, all[2]);
  EXPECT_EQ(refusal(f, 1 * mib), CUDA_SUCCESS);
}

// Memory freed while a capture runs may not go back to the driver's pool unordered: nothing can be recorded
// then.
TEST_F(stacked, cuda_async_frees_nothing_unordered_during_a_capture) {
  auto& async = *new upstream::cuda_async(here->home, 0, {});
  static std::vector<upstream::cuda_async*> left_behind;
  left_behind.push_back(&async);
  direct& d = make<direct>(async);
  space::handle const a = get(d, 1 * mib);
  here->epochs.capture_begins({tests::stream(1)});
  driver.capture(tests::stream(1));
  give(d, a);
  EXPECT_EQ(driver.calls("cuMemFreeAsync"), 0);
  driver.end_capture(tests::stream(1));
  here->epochs.capture_ended(tests::stream(1));
  space::handle const b = get(d, 1 * mib);
  EXPECT_EQ(driver.calls("cuMemFreeAsync"), 1) << "made up for at the next call";
  EXPECT_EQ(driver.stream_waits().size(), 1u) << "in order";
  give(d, b);
  EXPECT_EQ(driver.calls("cuMemFreeAsync"), 2);
}

}  // namespace
}  // namespace gpumem::resource
