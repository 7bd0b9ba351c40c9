// Requests with flags that a pool's segments lack go past it.
#include "core/resource/selectors/by_flags.hpp"

#include "core/upstream/managed.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct flags : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    here->home.kind = driver::memory_kind::host;
  }
  by_flags& make_by_flags(unsigned of_all) {
    pinned = new upstream::pinned_host(here->home, 0, of_all);
    pooled = &make<pool>(pool_options{}, *pinned);
    others = &make<direct>(*pinned);
    return make<by_flags>(of_all, *pooled, *others);
  }
  space::handle get_with(resource& from, std::uint64_t bytes, unsigned with) {
    return from.allocate({.bytes = bytes, .flags = with});
  }
  resource* owner(space::handle h) { return &owner_of(here->where, h); }

  upstream::pinned_host* pinned = nullptr;
  pool* pooled = nullptr;
  direct* others = nullptr;
};

TEST_F(flags, none_is_for_the_pool_any_is_not) {
  by_flags& all = make_by_flags(0);
  space::handle const plain = get_with(all, 1000, 0);
  EXPECT_EQ(owner(plain), pooled);
  for (unsigned const f :
       {CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED})
    EXPECT_EQ(owner(get_with(all, 1000, f)), others);
  int const calls = driver.calls("cuMemHostAlloc");
  give(all, plain);
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  EXPECT_EQ(get_with(all, 1000, 0), plain);
  EXPECT_EQ(driver.calls("cuMemHostAlloc"), calls);
}

TEST_F(flags, what_every_segment_has_may_be_asked_for) {
  by_flags& all = make_by_flags(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  EXPECT_EQ(owner(get_with(all, 1000, 0)), pooled);
  EXPECT_EQ(owner(get_with(all, 1000, CU_MEMHOSTALLOC_PORTABLE)), pooled);
  EXPECT_EQ(owner(get_with(all, 1000, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED)), others);
}

TEST_F(flags, a_pool_of_the_host_relieves_itself) {
  here->home.relieve = [](CUcontext, give_back_scope) -> std::uint64_t { return 0; };  // about device memory
  by_flags& all = make_by_flags(0);
  driver.set_capacity(8 * mib);
  std::vector<space::handle> live;
  for (int i = 0; i < 4; ++i) live.push_back(get_with(all, 2 * mib, 0));
  for (space::handle const h : live) give(all, h);
  EXPECT_NE(get_with(all, 8 * mib, 0), space::none) << "the empty segments had to go first";
}

// Managed memory is asked for by whole pages: blocks for smaller requests than one have to hold it.
TEST_F(flags, blocks_of_one_size_of_managed_memory_hold_whole_pages) {
  here->home.kind = driver::memory_kind::managed;
  upstream::managed memory(here->home, 0, {});
  for (std::uint64_t const size : {512u, 4096u, 6000u}) {
    auto& pooled_by_size = make<fixed_size>(fixed_size_options{.block_size = size}, memory);
    auto& all = make<by_flags>(0u, pooled_by_size, make<direct>(memory));
    EXPECT_EQ(owner(get(all, 1)), &pooled_by_size);
    EXPECT_EQ(block(get(all, size)).bytes() % 4096, 0u);
    EXPECT_EQ(refusal(all, (size + 4095) / 4096 * 4096 + 1), CUDA_ERROR_OUT_OF_MEMORY);
    all.forget();
    pooled_by_size.forget();
  }
}

}  // namespace
}  // namespace gpumem::resource
