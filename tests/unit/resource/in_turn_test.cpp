// Large blocks that are freed and asked for again, one after the other: a loop that does nothing else gets
// more of them, so that one event settles several; a program that works between its calls does not, as it
// would keep that memory for good and notice nothing of the gain.
#include "core/base/clock.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct in_turn : resource_fixture {
  static constexpr std::uint64_t size = 4 * mib;

  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
  }
  // As many rounds as an event each has to be paid for, and some; each of at least `pause_ns`.
  void rounds(pool& p, std::uint64_t pause_ns) {
    for (int i = 0; i < 250; ++i) {
      std::uint64_t const end = base::now_ns() + pause_ns;
      give(p, get(p, size));
      while (base::now_ns() < end) {
      }
    }
  }
};

TEST_F(in_turn, a_loop_of_pairs_gets_blocks_to_take_turns) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a round takes several times as long";
#endif
  pool& p = make_pool();
  // Where this thread is interrupted the rounds look slow: not for ever.
  for (int i = 0; i < 1000 && p.reserved() <= size; ++i) rounds(p, 0);
  EXPECT_EQ(p.reserved(), 16 * size);
}

TEST_F(in_turn, a_program_that_works_between_its_calls_keeps_no_more_than_it_asked_for) {
  pool& p = make_pool();
  for (int i = 0; i < 4; ++i) rounds(p, 10'000);
  EXPECT_EQ(p.reserved(), size);
}

}  // namespace
}  // namespace gpumem::resource
