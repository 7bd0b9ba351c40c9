// How plain memory goes back: by cuMemFree where the GPU has nothing to do, in the order of a stream of its
// own where it has and the memory itself is done, and never so where work may still use it.
#include "core/upstream/cuda.hpp"

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct cuda_upstream : resource_fixture {
  extent reserved(bool done) {
    extent memory = here->cuda.reserve({.bytes = 64 * mib});
    memory.done = done;
    return memory;
  }
  int freed_at_once() { return driver.calls("cuMemFree_v2"); }
  int freed_in_order() { return driver.calls("cuMemFreeAsync"); }
};

TEST_F(cuda_upstream, what_is_done_goes_in_order_beside_work) {
  extent const memory = reserved(true);
  here->cuda.release(memory, {});
  EXPECT_EQ(freed_in_order(), 1);
  EXPECT_EQ(driver.calls("cuStreamSynchronize"), 1) << "only then the device has it";
  EXPECT_EQ(freed_at_once(), 0);
}

TEST_F(cuda_upstream, and_at_once_where_there_is_none) {
  driver.manual_events(false);
  here->cuda.release(reserved(true), {});
  EXPECT_EQ(freed_in_order(), 0);
  EXPECT_EQ(freed_at_once(), 1);
}

// cuMemFree waits for what another thread launches meanwhile, and a free in stream order waits for nothing.
TEST_F(cuda_upstream, nor_so_by_a_call_that_may_not_wait) {
  driver.manual_events(false);
  here->cuda.release(reserved(true), {.may_wait = false});
  EXPECT_EQ(freed_in_order(), 1);
  EXPECT_EQ(freed_at_once(), 0);
}

TEST_F(cuda_upstream, which_leaves_what_is_not_done_to_a_later_one) {
  here->cuda.release(reserved(false), {.may_wait = false});
  EXPECT_EQ(freed_in_order() + freed_at_once(), 0);
  EXPECT_EQ(here->cuda.pending(), 64 * mib);
  extent const other = reserved(true);
  here->cuda.release(other, {.may_wait = false});
  EXPECT_EQ(freed_in_order(), 1) << "alone: the rest is not done";
  driver.finish_all();
  here->cuda.synchronized();
  here->epochs.poll_now();
  here->cuda.release(reserved(true), {});
  EXPECT_EQ(freed_in_order() + freed_at_once(), 3);
  EXPECT_EQ(here->cuda.pending(), 0u);
}

TEST_F(cuda_upstream, nor_does_a_driver_without_such_frees_let_it_wait) {
  extent const first = reserved(true), second = reserved(true), third = reserved(true);
  driver.fail("cuMemFreeAsync", CUDA_ERROR_NOT_SUPPORTED);
  here->cuda.release(first, {.may_wait = false});
  here->cuda.release(second, {.may_wait = false});
  EXPECT_EQ(freed_at_once(), 0);
  EXPECT_EQ(freed_in_order(), 1) << "and is not asked again";
  driver.finish_all();
  driver.manual_events(false);
  here->cuda.release(third, {});
  EXPECT_EQ(freed_at_once(), 3);
}

TEST_F(cuda_upstream, what_work_may_use_waits_for_it_in_the_driver) {
  here->cuda.release(reserved(false), {});
  EXPECT_EQ(freed_in_order(), 0);
  EXPECT_EQ(freed_at_once(), 1);
}

TEST_F(cuda_upstream, a_driver_that_cannot_is_asked_the_other_way) {
  driver.fail("cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY);
  here->cuda.release(reserved(true), {});
  EXPECT_EQ(freed_in_order(), 0);
  EXPECT_EQ(freed_at_once(), 1);
}

TEST_F(cuda_upstream, and_not_counted_on_again) {
  EXPECT_TRUE(here->cuda.takes_back_at_once());
  driver.fail("cuMemFreeAsync", CUDA_ERROR_NOT_SUPPORTED);
  here->cuda.release(reserved(true), {});
  EXPECT_EQ(freed_at_once(), 1);
  EXPECT_FALSE(here->cuda.takes_back_at_once());
  here->cuda.release(reserved(true), {});
  EXPECT_EQ(freed_in_order(), 1);
  EXPECT_EQ(freed_at_once(), 2);
}

TEST_F(cuda_upstream, nor_one_without_the_functions) {
  auto const kept = std::exchange(driver::real.cuMemFreeAsync, nullptr);
  EXPECT_FALSE(here->cuda.takes_back_at_once());
  here->cuda.release(reserved(true), {});
  driver::real.cuMemFreeAsync = kept;
  EXPECT_EQ(freed_at_once(), 1);
  EXPECT_TRUE(here->cuda.takes_back_at_once());
}

}  // namespace
}  // namespace gpumem::resource
