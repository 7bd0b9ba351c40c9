// Memory on its way back when another thread ends the context: the blocks that it was cut from went with
// their region, and their handles are others' by now.
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "core/resource/in_hand.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

// Between a pool and the one below it, where no lock is held.
class between final : public source {
 public:
  explicit between(source& below) noexcept : below_(below) {}
  std::function<void()> before_release, after_reserve;

  extent last;

  extent reserve(allocation_request const& request) override {
    last = below_.reserve(request);
    if (auto const hook = std::exchange(after_reserve, nullptr)) hook();
    return last;
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

// The ways on which a block goes back that was taken from the program when `begun` was made.
using way_back = void (*)(resource& of, space::handle h, free_order begun);
constexpr way_back ways[] = {
    [](resource& of, space::handle h, free_order begun) { of.deallocate(h, begun); },
    [](resource& of, space::handle h, free_order begun) {
      begun.slot = 1;
      begun.in_order = true;
      begun.stream = tests::stream(1);
      of.deallocate(h, begun);
    },
    [](resource& of, space::handle h, free_order begun) { of.deallocate_unproven(h, begun); },
    [](resource& of, space::handle h, free_order begun) { of.withhold(h, begun); }};

TEST_F(ended, a_block_is_freed_that_its_context_took_along) {
  for (std::size_t n = 0; n < std::size(ways); ++n) {
    SCOPED_TRACE(n);
    pool& p = make_pool();
    get(p, 8 * mib);
    space::handle const h = get(p, 8 * mib);
    free_order const begun = order();
    block(h).now = space::state::cached;
    end_context();
    ways[n](p, h, begun);
    EXPECT_EQ(p.reserved(), 0u);
    begin_next_context();
    EXPECT_EQ(p.measure().idle, 0u);
    expect_sound(p);
  }
}

// By then its handle names a block of the next context's.
TEST_F(ended, a_block_is_freed_when_the_next_context_has_served) {
  for (bool const first : {true, false})  // the first free of its kind makes a magazine, others find it
    for (std::size_t n = 0; n < std::size(ways); ++n) {
      SCOPED_TRACE(n);
      pool& p = make_pool();
      std::vector<space::handle> had;
      for (int i = 0; i < 32; ++i) had.push_back(get(p, mib));
      if (!first)
        for (stream_order::slot s = 0; s < 2; ++s) give(p, get(p, 4 * kib, s), s);
      free_order const begun = order();
      for (space::handle const h : had) block(h).now = space::state::cached;
      end_context();
      begin_next_context();
      std::vector<space::handle> others;
      for (int i = 0; i < 32; ++i) others.push_back(get(p, mib));
      std::uint64_t const idle = p.measure().idle;
      for (space::handle const h : had) ways[n](p, h, begun);
      EXPECT_EQ(p.measure().idle, idle);
      for (int i = 0; i < 16; ++i) others.push_back(get(p, mib, 1));
      expect_sound(p, others);
    }
}

TEST_F(ended, one_that_is_an_allocation_of_its_own) {
  direct& d = make<direct>(here->cuda);
  space::handle const h = get(d, mib);
  free_order const begun = order();
  block(h).now = space::state::cached;
  end_context();
  d.deallocate(h, begun);
  begin_next_context();
  space::handle const next = get(d, mib), other = get(d, mib);
  EXPECT_NE(block(next).begin(), block(other).begin());
  EXPECT_EQ(driver.allocations(), 2u);
}

TEST_F(ended, one_of_those_when_the_next_context_has_served) {
  direct& d = make<direct>(here->cuda);
  std::vector<space::handle> had, others;
  for (int i = 0; i < 4; ++i) had.push_back(get(d, mib));
  free_order const begun = order();
  for (space::handle const h : had) block(h).now = space::state::cached;
  end_context();
  begin_next_context();
  for (int i = 0; i < 4; ++i) others.push_back(get(d, mib));
  for (space::handle const h : had) d.deallocate(h, begun);
  EXPECT_EQ(driver.allocations(), 4u);
  for (space::handle const h : others)
    EXPECT_NE(here->where.segments.containing(block(h).begin(), &d), nullptr);
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

// Whoever is given these addresses in another context waits: a thread has memory there that its context took
// along.
bool waits_for(std::uint64_t address, std::uint64_t bytes) {
  static stream_order::epochs& others = *new stream_order::epochs(tests::second_context, 0);
  in_hand mine;
  mine.hold(others, others.life(), address, bytes);
  return in_hand::is_anothers(others, address, bytes, &mine);
}

TEST_F(ended, memory_in_no_table_is_in_hand) {
  struct part {
    char const* name;
    std::function<void(between&)> give_back;
  };
  part const parts[] = {{"pool",
                         [this](between& way) {
                           pool& p = make<pool>(pool_options{}, way);
                           give(p, get(p, mib));
                           p.give_back(give_back_scope::all);
                         }},
                        {"direct", [this](between& way) {
                           direct& d = make<direct>(way);
                           give(d, get(d, mib));
                         }}};
  for (part const& each : parts) {
    SCOPED_TRACE(each.name);
    between& way = below<between>(here->cuda);
    std::uint64_t address = 0;
    bool came = false, went = false;
    way.after_reserve = [&] {
      address = way.last.address;
      came = waits_for(address, 512) && waits_for(address - 512, 1024) && !waits_for(address - 512, 512);
    };
    way.before_release = [&] { went = waits_for(address, 512); };
    each.give_back(way);
    EXPECT_NE(address, 0u);
    EXPECT_TRUE(came);
    EXPECT_TRUE(went);
    EXPECT_FALSE(waits_for(address, 512)) << "it is in nobody's hand any more";
  }
}

TEST_F(ended, memory_that_waits_for_its_work_is_in_hand) {
  direct& d = make<direct>(here->cuda);
  space::handle const h = get(d, mib, 1);
  std::uint64_t const address = block(h).begin();
  give(d, h, 1);
  EXPECT_FALSE(waits_for(address, 512)) << "it is in a table";
  bool went = false;
  driver.at_call([&](char const* name) {
    if (std::string_view(name).starts_with("cuMemFree")) went = waits_for(address, 512);
  });
  here->cuda.trim(give_back_scope::all);
  driver.at_call(nullptr);
  EXPECT_TRUE(went);
  EXPECT_FALSE(waits_for(address, 512));
}

// In the life of a context that it has now the driver gives out only what it has back.
TEST_F(ended, what_this_life_of_a_context_gave_back_is_not_waited_for) {
  in_hand anothers, mine;
  stream_order::epochs const& epochs = here->epochs;
  anothers.hold(epochs, epochs.life(), mib, mib);
  mine.hold(epochs, epochs.life(), mib, mib);
  EXPECT_FALSE(in_hand::is_anothers(epochs, mib, mib, &mine));
  here->epochs.abandon();
  here->epochs.begin_again(tests::second_context);
  in_hand later;
  later.hold(epochs, epochs.life(), mib, mib);
  EXPECT_TRUE(in_hand::is_anothers(epochs, mib, mib, &later));
  EXPECT_FALSE(in_hand::is_anothers(epochs, mib, mib, &mine))
      << "its context has ended as well: it waits for nobody";
}

// A taker whose memory goes with no context has no hand.
TEST_F(ended, a_taker_without_a_hand_waits_as_well) {
  stream_order::epochs& others = *new stream_order::epochs(tests::second_context, 0);
  in_hand lost;
  lost.hold(here->epochs, here->epochs.life(), mib, mib);
  EXPECT_TRUE(in_hand::is_anothers(others, mib, 512, nullptr));
  EXPECT_FALSE(in_hand::is_anothers(others, 2 * mib, 512, nullptr));
}

// As where a source takes memory back again and another one is asked.
TEST_F(ended, a_hand_holds_what_it_took_last) {
  in_hand hand;
  hand.hold(here->epochs, here->epochs.life(), mib, mib);
  hand.hold(here->epochs, here->epochs.life(), 4 * mib, mib);
  EXPECT_FALSE(waits_for(mib, 512));
  EXPECT_TRUE(waits_for(4 * mib, 512));
}

TEST_F(ended, a_forked_child_has_nothing_in_hand) {
  in_hand& of_the_parents = *new in_hand;  // on the stack of a thread that the child does not have
  of_the_parents.hold(here->epochs, here->epochs.life(), mib, mib);
  EXPECT_TRUE(waits_for(mib, 512));
  in_hand::forget_all();
  EXPECT_FALSE(waits_for(mib, 512));
}

}  // namespace
}  // namespace gpumem::resource
