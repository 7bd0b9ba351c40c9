// Memory on its way back when another thread ends the context: the blocks that it was cut from went with
// their region, and their handles are others' by now.
#include <functional>
#include <map>
#include <utility>

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

// Between a pool and the one below it, where no lock is held.
class between final : public source {
 public:
  explicit between(source& below) noexcept : below_(below) {}
  std::function<void()> before_release, after_reserve;

  extent reserve(allocation_request const& request) override {
    extent const memory = below_.reserve(request);
    if (auto const hook = std::exchange(after_reserve, nullptr)) hook();
    return memory;
  }
  void release(extent const& memory, release_order const& order) noexcept override {
    if (auto const hook = std::exchange(before_release, nullptr)) hook();
    below_.release(memory, order);
  }
  void lost(extent const& memory) noexcept override { below_.lost(memory); }

 private:
  source& below_;
};

struct ended : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
  }
  // These blocks and more of them lie beside each other, in segments that are there.
  void expect_sound(pool& p, std::vector<space::handle> had = {}) {
    for (int i = 0; i < 16; ++i) had.push_back(get(p, mib));
    std::map<std::uint64_t, std::uint64_t> all;
    for (space::handle const h : had) {
      space::block const& b = block(h);
      EXPECT_EQ(b.now.load(), space::state::live);
      all[b.begin()] = b.end();
      EXPECT_NE(here->where.segments.containing(b.begin(), &p), nullptr);
    }
    EXPECT_EQ(all.size(), had.size());
    std::uint64_t end = 0;
    for (auto const& [from, to] : all) {
      EXPECT_GE(from, end) << "two have the same memory";
      end = to;
    }
  }
};

TEST_F(ended, a_block_is_freed_that_its_context_took_along) {
  using way = void (*)(resource&, space::handle);
  constexpr way ways[] = {[](resource& of, space::handle h) { of.deallocate(h, {}); },
                          [](resource& of, space::handle h) {
                            of.deallocate(h, {.slot = 1, .in_order = true, .stream = tests::stream(1)});
                          },
                          [](resource& of, space::handle h) { of.deallocate_unproven(h, {}); },
                          [](resource& of, space::handle h) { of.withhold(h, {}); }};
  for (std::size_t n = 0; n < std::size(ways); ++n) {
    SCOPED_TRACE(n);
    pool& p = make_pool();
    get(p, 8 * mib);
    space::handle const h = get(p, 8 * mib);
    block(h).now = space::state::cached;
    end_context();
    ways[n](p, h);
    EXPECT_EQ(p.reserved(), 0u);
    begin_next_context();
    EXPECT_EQ(p.measure().idle, 0u);
    expect_sound(p);
  }
}

TEST_F(ended, one_that_is_an_allocation_of_its_own) {
  direct& d = make<direct>(here->cuda);
  space::handle const h = get(d, mib);
  block(h).now = space::state::cached;
  end_context();
  d.deallocate(h, {});
  begin_next_context();
  space::handle const next = get(d, mib), other = get(d, mib);
  EXPECT_NE(block(next).begin(), block(other).begin());
  EXPECT_EQ(driver.allocations(), 2u);
}

TEST_F(ended, a_slab_on_its_way_back_to_its_pool) {
  pool& p = make_pool();
  between& way = below<between>(p);
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = mib}, way);
  std::vector<space::handle> others;
  give(f, get(f, mib));
  way.before_release = [&] {
    end_context();
    begin_next_context();
    for (int i = 0; i < 32; ++i) others.push_back(get(p, mib));
  };
  f.give_back(give_back_scope::all);
  ASSERT_EQ(others.size(), 32u);
  expect_sound(p, others);
}

TEST_F(ended, a_slab_that_came_too_late) {
  pool& p = make_pool();
  between& way = below<between>(p);
  fixed_size& f = make<fixed_size>(fixed_size_options{.block_size = mib}, way);
  std::vector<space::handle> others;
  way.after_reserve = [&] {
    end_context();
    begin_next_context();
    for (int i = 0; i < 32; ++i) others.push_back(get(p, mib));
  };
  EXPECT_EQ(refusal(f, mib), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  expect_sound(p, others);
  EXPECT_EQ(refusal(f, mib), CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpumem::resource
