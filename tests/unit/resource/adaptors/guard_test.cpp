// Patterns, zones, and what must not happen: a fill before the work that may use the block, or in a capture.
#include "core/resource/adaptors/guard.hpp"

#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "tests/unit/resource/adaptors/adaptor_fixture.hpp"

namespace gpumem::resource {
namespace {

struct guard_test : adaptor_fixture {
  std::size_t node = 0;
  std::unique_ptr<guard> over(resource& below, guard_options const& options = {}) {
    node = stats::register_node("guard", "guard", 0, 0, "device", "");
    return std::make_unique<guard>(here->home, node, options, below);
  }
  static bool all(char const* at, std::size_t bytes, unsigned char pattern) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (static_cast<unsigned char>(at[i]) != pattern) return false;
    }
    return true;
  }
  static std::uint64_t faults() { return snapshot().misuses_total; }
};

TEST_F(guard_test, blocks_and_zones_are_filled) {
  auto part = over(make_pool());
  auto const h = get_from(*part, 3000, code(1));
  EXPECT_GE(block(h).bytes(), 3512u);
  EXPECT_TRUE(all(bytes_of(h), 3000, guard::new_pattern));
  EXPECT_TRUE(all(bytes_of(h) + 3000, 512, guard::zone_pattern));
  EXPECT_GE(driver.calls("cuStreamSynchronize"), 1) << "anyone may use it at once, so the fill is waited for";
  give_from(h, code(2));
  EXPECT_TRUE(all(bytes_of(h), 3000, guard::freed_pattern));
}

TEST_F(guard_test, fills_can_be_left_out) {
  auto part = over(make_pool(), {.fill_on_alloc = false, .fill_on_free = false, .redzone = 0});
  auto const h = get_from(*part, 3000, code(1));
  give_from(h, code(2));
  EXPECT_EQ(driver.calls("cuMemsetD8Async"), 0);
}

TEST_F(guard_test, a_damaged_zone_is_reported_once_with_all_that_is_known) {
  auto part = over(make_pool());
  auto const before = faults();
  auto const h = get_from(*part, 3000, code(1));
  std::memset(bytes_of(h) + 3004, 7, 3);
  part->synchronized();
  part->synchronized();
  give_from(h, code(2));
  auto const now = snapshot();
  ASSERT_EQ(now.misuses_total, before + 1);
  auto const& note = now.misuses.back();
  EXPECT_EQ(note.kind, stats::misuse_kind::damaged_zone);
  EXPECT_EQ(note.address, block(h).begin());
  EXPECT_EQ(note.bytes, 3000u);
  EXPECT_EQ(note.offset, 3004u);
  EXPECT_EQ(note.damaged, 3u);
  EXPECT_NE(note.allocated_at, 0u);
}

TEST_F(guard_test, the_free_finds_it_too) {
  auto part = over(make_pool());
  auto const before = faults();
  auto const good = get_from(*part, 4096, code(1)), bad = get_from(*part, 4096, code(1), 1);
  bytes_of(bad)[4096 + 511] = 0;
  give_from(good, code(2));
  EXPECT_EQ(faults(), before);
  give_from(bad, code(2), 1);
  EXPECT_EQ(faults(), before + 1);
}

// What the lower one fills at the free holds the zone of the upper one.
TEST_F(guard_test, a_guard_below_another_does_not_accuse_the_program) {
  auto lower = over(make_pool());
  auto upper = over(*lower);
  auto const before = faults();
  auto const plain = get_from(*upper, 3000, code(1)), ordered = get_from(*upper, 3000, code(1), 1);
  auto const bad = get_from(*upper, 3000, code(1));
  give_from(plain, code(2));
  give_from(ordered, code(2), 1);
  EXPECT_EQ(faults(), before);
  EXPECT_TRUE(all(bytes_of(plain), 3512, guard::freed_pattern));
  bytes_of(bad)[3001] = 0;
  give_from(bad, code(2));
  EXPECT_EQ(faults(), before + 1) << "once, by the one whose zone it is";
  int const fills = driver.calls("cuMemsetD8Async");
  auto const odd = get_from(*upper, 3001, code(1));
  EXPECT_EQ(driver.calls("cuMemsetD8Async"), fills + 4);
  bytes_of(odd)[3001 + 512] = 0;
  give_from(odd, code(2));
  EXPECT_EQ(faults(), before + 2) << "what is behind the one zone is the other's alone";
}

// Threads allocate while another one has waited for the context: the zone of a newer block is being filled.
TEST_F(guard_test, a_wait_looks_only_at_zones_that_were_filled_before_it) {
  auto part = over(make_pool());
  auto const h = get_from(*part, 3000, code(1), 1);
  int const looks = driver.calls("cuMemcpyDtoHAsync_v2");
  part->synchronized();
  EXPECT_EQ(driver.calls("cuMemcpyDtoHAsync_v2"), looks) << "its fill is not known to be done";
  ASSERT_EQ(here->epochs.synchronize(), CUDA_SUCCESS);
  part->synchronized();
  EXPECT_EQ(driver.calls("cuMemcpyDtoHAsync_v2"), looks + 1);
  give_from(h, code(2), 1);
}

// The scripted context is busy until it is synchronised: what fills before that would fill under a kernel.
TEST_F(guard_test, a_free_waits_for_the_work_before_it_fills) {
  auto part = over(make_pool());
  auto const h = get_from(*part, 3000, code(1));
  int const waits = driver.calls("cuEventSynchronize"), fills = driver.calls("cuMemsetD8Async");
  driver.fail("cuEventSynchronize", CUDA_ERROR_LAUNCH_FAILED);
  give_from(h, code(2));
  EXPECT_EQ(driver.calls("cuEventSynchronize"), waits + 1);
  EXPECT_EQ(driver.calls("cuMemsetD8Async"), fills) << "filled although the work was not known to be done";
}

TEST_F(guard_test, a_stream_ordered_free_is_filled_on_its_stream) {
  auto part = over(make_pool());
  auto const h = get_from(*part, 3000, code(1), 1);
  int const waits = driver.calls("cuEventSynchronize");
  give_from(h, code(2), 1);
  EXPECT_EQ(driver.calls("cuEventSynchronize"), waits);
  EXPECT_TRUE(all(bytes_of(h), 3000, guard::freed_pattern));
}

TEST_F(guard_test, nothing_is_done_in_a_capture) {
  auto part = over(make_pool());
  auto const filled = get_from(*part, 3000, code(1));
  here->epochs.capture_begins({tests::stream(1)});
  driver.capture(tests::stream(1));
  int const calls = driver.calls("cuMemsetD8Async") + driver.calls("cuMemcpyDtoHAsync_v2");
  auto const h = get_from(*part, 3000, code(1));
  give_from(h, code(2));
  give_from(filled, code(2));
  part->synchronized();
  EXPECT_EQ(driver.calls("cuMemsetD8Async") + driver.calls("cuMemcpyDtoHAsync_v2"), calls);
  driver.end_capture(tests::stream(1));
  here->epochs.capture_ended(tests::stream(1));
}

// Its handle names a block of the next one's by then.
TEST_F(guard_test, a_free_that_is_late_touches_nothing_of_the_next_context) {
  auto part = over(make_pool());
  auto const h = get_from(*part, 3000, code(1));
  driver::free_request const by{.caller = code(2)};
  free_order begun = order();
  begun.by = &by;
  block(h).now = space::state::cached;
  end_context();
  part->forget();
  begin_next_context();
  space::handle next = space::none;
  for (int i = 0; i < 64 && next != h; ++i) next = get_from(*part, 3000, code(1));
  ASSERT_EQ(next, h);
  auto const before = faults();
  int const fills = driver.calls("cuMemsetD8Async");
  take_back(owner_of(here->where, h), h, begun);
  EXPECT_EQ(driver.calls("cuMemsetD8Async"), fills);
  EXPECT_TRUE(all(bytes_of(next), 3000, guard::new_pattern));
  bytes_of(next)[3004] = 7;
  give_from(next, code(2));
  EXPECT_EQ(faults(), before + 1) << "it is still known";
}

// Between the guard and the pool: what happens before the block comes up.
class meanwhile final : public adaptor {
 public:
  meanwhile(chain_context const& home, resource& below) noexcept : adaptor(home, 0, below) {}
  std::function<void()> hook;

 private:
  space::handle serve(allocation_request const& request) override {
    space::handle const h = pass_down(request);
    if (auto const now = std::exchange(hook, nullptr)) now();
    return h;
  }
};

TEST_F(guard_test, a_block_that_its_context_took_along_is_not_filled_in_the_next_one) {
  pool& p = make_pool();
  meanwhile below(here->home, p);
  auto part = over(below);
  below.hook = [&] {
    end_context();
    part->forget();
    begin_next_context();
    for (int i = 0; i < 16; ++i) get(p, 4 * kib);
  };
  part->allocate({.bytes = 3000});
  EXPECT_EQ(driver.calls("cuMemsetD8Async"), 0);
  part->synchronized();
  EXPECT_EQ(driver.calls("cuMemcpyDtoHAsync_v2"), 0);
}

TEST_F(guard_test, a_block_that_its_context_took_along_is_not_looked_at_in_the_next_one) {
  auto part = over(make_pool());
  bool ended = false;
  driver.at_call([&](char const* name) {
    if (ended || std::string_view(name) != "cuStreamSynchronize") return;
    ended = true;
    end_context();
    part->forget();
  });
  part->allocate({.bytes = 3000});
  driver.at_call(nullptr);
  ASSERT_TRUE(ended);
  begin_next_context();
  part->synchronized();
  EXPECT_EQ(driver.calls("cuMemcpyDtoHAsync_v2"), 0) << "it looked at a block that is no more";
}

TEST_F(guard_test, an_exported_block_keeps_its_content) {
  auto part = over(make_pool());
  auto const h = get_from(*part, 3000, code(1));
  block(h).mark(space::exported);
  driver::free_request const by{.caller = code(2)};
  tell_parents(owner_of(here->where, h), h, {.by = &by});
  EXPECT_TRUE(all(bytes_of(h), 3000, guard::new_pattern));
}

TEST_F(guard_test, a_size_near_the_largest_is_out_of_memory) {
  auto part = over(make_pool());
  EXPECT_THROW(get_from(*part, ~0ull - 100, code(1)), driver::allocation_failed);
}

}  // namespace
}  // namespace gpumem::resource
