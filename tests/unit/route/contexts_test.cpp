// Entries of contexts: one serves many contexts, one after the other, and none is taken for another.
#include "core/route/contexts/contexts.hpp"

#include <set>

#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

using contexts_of_a_program = route_fixture;
using tests::first_context;
using tests::stream;

// Whatever their handles, no more entries are walked than contexts lived at once; what was learned of the old
// ones is not said of the new ones.
TEST_F(contexts_of_a_program, contexts_that_come_and_go_for_ever_use_the_same_entries) {
  std::set<context_entry*> entries;
  CUdeviceptr last = 0;
  for (std::uintptr_t i = 0; i < 1000; ++i) {
    auto* const context = reinterpret_cast<CUcontext>(0x10000 + 0x100 * i);
    driver.set_context(context, 0);
    CUdeviceptr const block = must_get(1000, nullptr, context);
    EXPECT_FALSE(last != block && owns(last)) << "of the one before";
    EXPECT_SERVED(give(must_get(3000, stream(1), context), stream(1), context), CUDA_SUCCESS);
    context_entry* const entry = present->known.find(context);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->handle, context);
    EXPECT_TRUE(entry->order.well());
    entries.insert(entry);
    last = block;
    driver.end_context(context, false);
    context_gone(context);
    EXPECT_EQ(present->known.find(context), nullptr);
    EXPECT_EQ(stats::get(stats::gauges(0).reserved), 0u);
  }
  EXPECT_EQ(entries.size(), 1u);
}

// One of another device has a chain of its own.
TEST_F(contexts_of_a_program, an_entry_serves_contexts_of_its_device_alone) {
  must_get(1000);
  context_entry* const first = present->known.find(first_context);
  context_gone(first_context);
  must_get(1000, nullptr, tests::second_context);
  EXPECT_NE(present->known.find(tests::second_context), first);
  must_get(1000);
  EXPECT_EQ(present->known.find(first_context), first);
}

// It is told late, or by two threads, that a context has ended: of the next one that is not said.
TEST_F(contexts_of_a_program, an_end_that_is_told_late_is_not_the_next_contexts) {
  must_get(1000);
  context_entry* const entry = present->known.find(first_context);
  std::uint64_t const ended = entry->serial;
  std::uint32_t const life = entry->order.life();
  context_gone(first_context);
  auto* const next = reinterpret_cast<CUcontext>(std::uintptr_t{0x7000});
  driver.set_context(next, 0);
  CUdeviceptr const block = must_get(1000, nullptr, next);
  ASSERT_EQ(present->known.find(next), entry);
  present->known.end(*entry, ended);
  EXPECT_TRUE(owns(block));
  EXPECT_TRUE(entry->order.ended_since(life)) << "what was asked of the driver for the first is nobody's";
  EXPECT_FALSE(entry->order.ended());
  EXPECT_EQ(present->known.find(first_context), nullptr);
  context_gone(next);
}

}  // namespace
}  // namespace gpumem::route
