// Memory that is seen and not routed, of a context that another thread ends in the middle of a call: it is on
// no ledger and against no limit afterwards, whichever of both calls is through first.
#include "shim/observed/observed_memory.hpp"

#include <gtest/gtest.h>

#include "core/resource/adaptors/budget.hpp"
#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::shim {
namespace {

constexpr std::uint64_t mib = 1 << 20, key = 0x7000;
constexpr int device = 6;  // the ledger outlives a test: one that no other has

struct observed : testing::Test {
  tests::fake_driver& driver = tests::fake_driver::instance();
  observed_memory& table = observed_memory::instance();
  resource::budget* limit = nullptr;
  observed_memory::item held{};

  void SetUp() override {
    driver.reset();
    driver.set_context(tests::first_context, device);
    limit = resource::budget::find_or_make({.name = "limit", .device = device, .limit = 8 * mib});
    held = {{.device = device, .bytes = mib}, driver::name_of(tests::first_context)};
  }
  void TearDown() override {
    EXPECT_EQ(on_ledger(), 0u);
    EXPECT_EQ(limit->left(), 8 * mib);
  }
  static std::uint64_t on_ledger() { return stats::get(stats::gauges(device).observed); }
  // As a call that took it does.
  void take() {
    arrival under_way;
    route::hold(held.held, 0);
    EXPECT_TRUE(under_way.keep(observed_kind::array, key, held));
    EXPECT_EQ(on_ledger(), mib);
  }
  // As the call of another thread that ends the context; `again`: the handle is another context's at once.
  void end(bool again = false) {
    driver::named_context const ended = driver::name_of(tests::first_context);
    driver.end_context(tests::first_context, again);
    table.forget(ended);
  }
};

TEST_F(observed, it_goes_with_its_context) {
  take();
  end();
}

TEST_F(observed, a_call_that_gives_it_back_is_refused_as_its_context_has_ended) {
  for (bool const again : {false, true}) {
    driver.set_context(tests::first_context, device);
    driver.context_ids.erase(tests::first_context);
    held.context = driver::name_of(tests::first_context);
    take();
    {
      departure const refused(observed_kind::array, key);
      EXPECT_EQ(limit->left(), 7 * mib) << "until then it is not free";
      end(again);
    }
    EXPECT_EQ(on_ledger(), 0u);
    EXPECT_FALSE(table.take(observed_kind::array, key).has_value());
  }
}

TEST_F(observed, it_is_there_again_where_the_driver_did_not_take_it) {
  take();
  { departure const refused(observed_kind::array, key); }
  EXPECT_EQ(on_ledger(), mib);
  {
    departure const refused(observed_kind::array, key);
    driver.set_context(tests::second_context, device);
    driver::named_context const other = driver::name_of(tests::second_context);
    driver.end_context(tests::second_context, false);
    table.forget(other);  // the end of another one takes nothing of this along
  }
  EXPECT_EQ(on_ledger(), mib);
  departure given(observed_kind::array, key);
  EXPECT_EQ(given.done(), mib);
}

TEST_F(observed, a_call_that_took_it_is_through_after_its_context_has_ended) {
  arrival under_way;
  end();
  route::hold(held.held, 0);
  EXPECT_TRUE(under_way.keep(observed_kind::array, key, held));
}

}  // namespace
}  // namespace gpumem::shim
