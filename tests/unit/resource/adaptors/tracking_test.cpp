// Outstanding blocks by call site, stacks, and the three kinds of wrong frees with where each was.
#include "core/resource/adaptors/tracking.hpp"

#include "tests/unit/resource/adaptors/adaptor_fixture.hpp"

namespace gpumem::resource {
namespace {

struct tracking_test : adaptor_fixture {
  std::size_t node = 0;
  std::unique_ptr<tracking> over(resource& below, char const* name, bool stacks = false) {
    node = stats::register_node(name, "tracking", 0, 0, "device", "");
    return std::make_unique<tracking>(here->home, node, stacks, below);
  }
  std::vector<stats::call_site_totals> sites() {
    std::vector<stats::call_site_totals> own;
    for (auto const& site : snapshot().call_sites) {
      if (site.node == node && site.allocations != 0) own.push_back(site);
    }
    return own;
  }
  static std::uint64_t first_frame(stats::snapshot const& from, unsigned site) {
    for (auto const& one : from.call_sites) {
      if (one.number == site) return one.frames.at(0).address;
    }
    return 0;
  }
};

std::uint64_t number(void const* address) {
  return reinterpret_cast<std::uint64_t>(address);
}

TEST_F(tracking_test, what_is_not_given_back_is_known_by_its_site) {
  auto part = over(make_pool(), "leaks");
  for (int i = 0; i < 10; ++i) {
    auto const small = get_from(*part, 1000, code(1));
    get_from(*part, 3000, code(2));
    if (i >= 4) give_from(small, code(3));
  }
  auto const found = sites();
  ASSERT_EQ(found.size(), 2u) << "a site that only frees is no leak";
  for (auto const& site : found) {
    bool const small = site.frames[0].address == number(code(1));
    EXPECT_EQ(site.allocations - site.frees, small ? 4u : 10u);
    EXPECT_EQ(site.allocated_bytes - site.freed_bytes, small ? 4000u : 30000u) << "as asked";
  }
}

TEST_F(tracking_test, a_context_that_goes_leaves_no_leaks) {
  auto part = over(make_pool(), "gone");
  get_from(*part, 1000, code(1));
  end_context();
  ASSERT_EQ(sites().size(), 1u);
  EXPECT_EQ(sites()[0].frees, 1u);
}

// Its handle names a block of the next one's by then.
TEST_F(tracking_test, a_late_free_is_none_of_the_next_context) {
  auto part = over(make_pool(), "late");
  late_free const late = free_late(*part);
  auto found = sites();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].allocations - found[0].frees, late.live);
  for (space::handle const h : late.next) give_from(h, code(2));
  found = sites();
  EXPECT_EQ(found[0].frees, found[0].allocations);
  EXPECT_EQ(found[0].freed_bytes, found[0].allocated_bytes);
}

[[gnu::noinline]] space::handle take_through(tracking_test& test, resource& part, int depth) {
  space::handle h =
      depth > 0 ? take_through(test, part, depth - 1) : test.get_from(part, 100, __builtin_return_address(0));
  asm volatile("" : "+r"(h));  // no tail call: this frame is to be seen
  return h;
}

TEST_F(tracking_test, stacks_tell_callers_apart) {
  auto part = over(make_pool(), "stacks", true);
  take_through(*this, *part, 1);
  take_through(*this, *part, 3);
  take_through(*this, *part, 3);
  auto const found = sites();
  ASSERT_GE(found.size(), 2u);
  std::uint64_t count = 0;
  for (auto const& site : found) {
    EXPECT_GT(site.frames.size(), 3u) << "only " << site.frames.size() << " frames";
    count += site.allocations;
  }
  EXPECT_EQ(count, 3u);
}

TEST_F(tracking_test, wrong_frees_are_reported_with_where) {
  auto part = over(make_pool(), "wrong");
  auto const before = snapshot().misuses_total;
  auto const h = get_from(*part, 3000, code(1));
  auto const kept = get_from(*part, 5000, code(2));
  std::uint64_t const address = block(h).begin();
  give_from(h, code(3));
  EXPECT_TRUE(part->refused({address, space::none, code(4)}));
  EXPECT_TRUE(part->refused({block(kept).begin() + 512, kept, code(5)}));
  EXPECT_FALSE(part->refused({0x1234000, space::none, code(6)}));  // another chain may know of it
  EXPECT_TRUE(part->refused({0x1234000, space::none, code(6), false}));
  auto const now = snapshot();
  ASSERT_EQ(now.misuses_total, before + 3);
  auto const* note = &now.misuses[before];
  EXPECT_EQ(note->kind, stats::misuse_kind::double_free);
  EXPECT_EQ(note->address, address);
  EXPECT_EQ(first_frame(now, note->allocated_at), number(code(1)));
  EXPECT_EQ(first_frame(now, note->freed_at), number(code(3)));
  EXPECT_EQ(first_frame(now, note->here), number(code(4)));
  ++note;
  EXPECT_EQ(note->kind, stats::misuse_kind::interior_free);
  EXPECT_EQ(note->offset, 512u);
  EXPECT_EQ(note->bytes, 5000u);
  EXPECT_EQ(first_frame(now, note->allocated_at), number(code(2)));
  ++note;
  EXPECT_EQ(note->kind, stats::misuse_kind::foreign_free);
  EXPECT_EQ(note->address, 0x1234000u);
  EXPECT_EQ(first_frame(now, note->here), number(code(6)));
}

}  // namespace
}  // namespace gpumem::resource
