// The driver's pools below a chain: what a free in stream order may wait for, and how a pool of our own ends.
#include "core/upstream/cuda_async.hpp"

#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct cuda_async_upstream : resource_fixture {
  upstream::cuda_async& make() {
    return below<upstream::cuda_async>(here->home, std::size_t{0}, upstream::cuda_async::options{});
  }
};

TEST_F(cuda_async_upstream, an_empty_pool_ends_with_its_context) {
  auto& p = make();
  p.release(p.reserve({.bytes = mib}), {.stream = tests::stream(1), .may_wait = false});
  p.forget();
  EXPECT_EQ(driver.calls("cuMemPoolTrimTo"), 1);
  EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 1);
}

TEST_F(cuda_async_upstream, one_with_memory_stays_and_keeps_nothing) {
  auto& p = make();
  p.reserve({.bytes = mib});
  int const set = driver.calls("cuMemPoolSetAttribute");
  p.forget();
  EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 0);
  EXPECT_EQ(driver.calls("cuMemPoolSetAttribute"), set + 1) << "its threshold";
}

TEST_F(cuda_async_upstream, nor_does_one_end_of_which_nothing_is_known) {
  auto& p = make();
  p.release(p.reserve({.bytes = mib}), {.stream = tests::stream(1), .may_wait = false});
  driver.fail("cuMemPoolGetAttribute", CUDA_ERROR_INVALID_VALUE);
  p.forget();
  EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 0);
}

TEST_F(cuda_async_upstream, memory_that_nobody_waited_for_serves_nobody) {
  auto& p = make();
  driver.fail("cuStreamSynchronize", CUDA_ERROR_UNKNOWN, 1);
  p.reserve({.bytes = mib});
  EXPECT_EQ(driver.calls("cuStreamSynchronize"), 2) << "asked again";
  std::uint64_t const before = stats::get(stats::gauges(0).reserved);
  driver.fail("cuStreamSynchronize", CUDA_ERROR_UNKNOWN, 4);
  EXPECT_THROW(p.reserve({.bytes = mib}), driver::allocation_failed);
  EXPECT_EQ(driver.calls("cuMemFreeAsync"), 1);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), before);
}

TEST_F(cuda_async_upstream, the_first_memory_that_the_driver_does_not_take_back_goes_later) {
  auto& p = below<upstream::cuda_async>(here->home, std::size_t{0},
                                        upstream::cuda_async::options{.initial_pool_size = mib});
  std::uint64_t const before = stats::get(stats::gauges(0).reserved);
  driver.fail("cuMemFreeAsync", CUDA_ERROR_UNKNOWN);
  p.reserve({.bytes = mib});
  EXPECT_EQ(stats::get(stats::gauges(0).reserved) - before, mib) << "the request's";
  EXPECT_EQ(driver.calls("cuMemFreeAsync"), 2);
}

TEST_F(cuda_async_upstream, what_waits_for_the_driver_is_not_given_to_it_by_a_second_free) {
  auto& p = make();
  extent const memory = p.reserve({.bytes = mib});
  auto const is_known = [&] { return here->home.where.segments.containing(memory.address).in != nullptr; };
  driver.fail("cuMemFreeAsync", CUDA_ERROR_UNKNOWN);
  p.release(memory, {.stream = tests::stream(1), .may_wait = false});
  EXPECT_TRUE(is_known());
  p.trim(give_back_scope::done);
  EXPECT_EQ(driver.calls("cuMemFreeAsync"), 2);
  EXPECT_FALSE(is_known()) << "it may be somebody else's";
}

TEST_F(cuda_async_upstream, what_waits_for_the_driver_goes_with_its_context) {
  auto& p = make();
  extent const memory = p.reserve({.bytes = mib});
  driver.fail("cuMemFreeAsync", CUDA_ERROR_UNKNOWN);
  p.release(memory, {.stream = tests::stream(1), .may_wait = false});
  p.forget();
  EXPECT_EQ(here->home.where.segments.containing(memory.address).in, nullptr);
}

TEST_F(cuda_async_upstream, what_is_done_is_ordered_after_nothing) {
  auto& p = make();
  extent done = p.reserve({.bytes = mib}), other = p.reserve({.bytes = mib});
  done.done = true;
  p.release(done, {});
  EXPECT_EQ(driver.calls("cuStreamWaitEvent"), 0);
  p.release(other, {});
  EXPECT_EQ(driver.calls("cuStreamWaitEvent"), 1);
  EXPECT_EQ(driver.calls("cuMemFreeAsync"), 2);
  EXPECT_EQ(driver.used(), 0u);
}

// A thread of another context that needs memory asks all chains of the device, of which one's context ends.
TEST_F(cuda_async_upstream, a_stream_that_went_with_its_context_is_asked_nothing) {
  auto& p = make();
  p.reserve({.bytes = mib});
  here->epochs.abandon();
  p.forget();
  auto const of_stream = [&] {
    return driver.calls("cuStreamQuery") + driver.calls("cuStreamSynchronize") +
           driver.calls("cuMemPoolTrimTo");
  };
  int const before = of_stream();
  p.trim(give_back_scope::all);
  EXPECT_EQ(of_stream(), before);
}

}  // namespace
}  // namespace gpumem::resource
