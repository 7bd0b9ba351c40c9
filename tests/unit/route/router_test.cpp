// Requests and frees at the router: who answers, with which code, and whose memory is whose.
#include <algorithm>
#include <thread>
#include <vector>

#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

using tests::first_context;
using tests::second_context;
using tests::stream;
using router = route_fixture;
constexpr std::uint64_t mib = 1ull << 20;

TEST_F(router, a_block_is_found_by_every_address_of_it) {
  CUdeviceptr const a = must_get(1000), b = must_get(5 * mib);
  block_range r;
  EXPECT_TRUE(owns(a));
  EXPECT_FALSE(owns(a + 1));
  ASSERT_TRUE(find(a + 999, r));
  EXPECT_EQ(r.base, a);
  EXPECT_EQ(r.bytes, 1000u);
  EXPECT_FALSE(find(a + 1000, r)) << "the rounding is not the program's";
  ASSERT_TRUE(find(b + 3 * mib, r));
  EXPECT_EQ(r.base, b);
  EXPECT_FALSE(find(0x1234, r));
  EXPECT_SERVED(give(a), CUDA_SUCCESS);
  EXPECT_FALSE(owns(a));
  EXPECT_FALSE(find(a, r));
}

TEST_F(router, wrong_frees_get_the_drivers_answer) {
  CUdeviceptr const first = must_get(1000), second = must_get(1000);
  EXPECT_SERVED(give(second), CUDA_SUCCESS);
  EXPECT_SERVED(give(second), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SERVED(give(first + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SERVED(give(first + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_PASS(give(0x123400));
  EXPECT_SERVED(give(first), CUDA_SUCCESS);
  // The base of the segment is an allocation of the driver's: passing the free on would take the segment
  // away.
  EXPECT_SERVED(give(first), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver.allocations(), 1u);
}

// Of the caller's context, its stream and captures the driver alone knows: it is asked by the same call.
TEST_F(router, a_free_of_no_block_has_the_drivers_refusal) {
  CUdeviceptr const block = must_get(1000), ordered = must_get(1000, stream(1));
  CUdeviceptr const host = must_get(1000, nullptr, first_context, driver::memory_kind::host);
  CUresult const ended = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  driver.fail("cuMemFree_v2", ended);
  EXPECT_SERVED(give(block + 4), ended);
  EXPECT_SERVED(give(block + 4), CUDA_ERROR_INVALID_VALUE);
  driver.fail("cuMemFreeAsync", ended);
  EXPECT_SERVED(give(ordered + 4, stream(1)), ended);
  EXPECT_SERVED(give(ordered + 4, stream(1)), CUDA_ERROR_INVALID_VALUE);
  driver.fail("cuMemFreeHost", ended);
  EXPECT_SERVED(give(host + 4, nullptr, first_context, driver::memory_kind::host), ended);
  EXPECT_SERVED(give(host + 4, nullptr, first_context, driver::memory_kind::host), CUDA_ERROR_INVALID_VALUE);
  driver::real.cuMemFreeAsync = nullptr;  // a driver before 11.2
  EXPECT_SERVED(give(ordered + 4, stream(1)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(owns(block) && owns(ordered) && owns(host));
}

// A thread remembers the blocks that it was handed last; what became of them elsewhere is told by the block.
TEST_F(router, what_became_of_a_block_in_another_thread_is_seen) {
  CUdeviceptr const a = must_get(1000);
  std::jthread([&] { EXPECT_SERVED(give(a), CUDA_SUCCESS); }).join();
  EXPECT_SERVED(give(a), CUDA_ERROR_INVALID_VALUE);  // freed there
  done();
  CUdeviceptr b = 0;
  std::jthread([&] { b = must_get(1u << 20); }).join();
  EXPECT_SERVED(give(b), CUDA_SUCCESS);  // made there: looked up among all
  done();
  // The handle of `a` comes to name another block: what began there is merged, given back, and made again.
  give_back(tests::first_context, resource::give_back_scope::all);
  EXPECT_PASS(give(a));
  CUdeviceptr const c = must_get(3u << 20);
  EXPECT_SERVED(give(c), CUDA_SUCCESS);
}

TEST_F(router, of_two_threads_that_free_a_block_one_is_refused) {
  for (int round = 0; round < 300; ++round) {
    CUdeviceptr const a = must_get(1000);
    std::atomic<int> good{0}, refused{0};
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&] { ++(give(a).code == CUDA_SUCCESS ? good : refused); });
      }
    }
    ASSERT_EQ(good.load(), 1);
    ASSERT_EQ(refused.load(), 1);
  }
}

TEST_F(router, cross_frees) {
  CUdeviceptr const plain = must_get(1000), ordered = must_get(1000, stream(1));
  EXPECT_SERVED(give(plain, stream(2)), CUDA_SUCCESS);
  EXPECT_EQ(must_get(1000, stream(2)), plain) << "freed on the stream, so it serves the stream";
  EXPECT_SERVED(give(ordered), CUDA_SUCCESS);
  done();
  EXPECT_EQ(must_get(1000), ordered);
}

TEST_F(router, contexts_have_memory_of_their_own) {
  CUdeviceptr const a = must_get(1000), b = must_get(1000, nullptr, second_context);
  EXPECT_SERVED(give(a, nullptr, second_context), CUDA_SUCCESS);
  done();
  EXPECT_NE(must_get(1000, nullptr, second_context), a);
  EXPECT_EQ(must_get(1000), a);
  // Freed on a stream of another context: that stream's work is waited for, but not by the host, and the home
  // context serves it.
  int const waits = driver.calls("cuStreamSynchronize"), events = driver.calls("cuEventRecord");
  EXPECT_SERVED(give(b, stream(7), first_context), CUDA_SUCCESS);
  EXPECT_EQ(driver.calls("cuStreamSynchronize"), waits);
  EXPECT_EQ(driver.calls("cuEventRecord"), events + 1);
  EXPECT_GT(idle_bytes(first_context), 0u);
  EXPECT_GT(idle_bytes(second_context), 0u);
}

// At the first block of a segment lies what the driver knows: given that, it would take the whole segment.
TEST_F(router, a_free_on_a_stream_of_which_nobody_can_say_whose_it_is_is_not_the_drivers) {
  CUcontext const unknown = reinterpret_cast<CUcontext>(77);
  driver.set_context(unknown, 0);
  std::vector<CUdeviceptr> blocks{must_get(1000), must_get(1000), must_get(1000)};
  std::sort(blocks.begin(), blocks.end());
  driver.fail("cuCtxGetDevice", CUDA_ERROR_UNKNOWN, 1000);
  int const waits = driver.calls("cuStreamSynchronize");
  EXPECT_SERVED(give(blocks[0], stream(7), unknown), CUDA_SUCCESS);
  EXPECT_EQ(driver.calls("cuStreamSynchronize"), waits + 1) << "its work is in no epoch";
  driver.fail("cuStreamSynchronize", CUDA_ERROR_UNKNOWN, 1000);
  EXPECT_SERVED(give(blocks[1], stream(7), unknown), CUDA_ERROR_UNKNOWN);  // it may be in use
  EXPECT_TRUE(owns(blocks[1]));
  driver.fail("cuStreamSynchronize", CUDA_SUCCESS, 0);
  driver.fail("cuCtxGetDevice", CUDA_SUCCESS, 0);
  done();
  EXPECT_SERVED(give(blocks[1]), CUDA_SUCCESS);
  EXPECT_EQ(must_get(1000, stream(1)) % 256, 0u);
}

TEST_F(router, out_of_memory_is_code_2_and_a_null_address) {
  driver.set_capacity(4 * mib);
  CUdeviceptr address = 77;
  EXPECT_SERVED(get(1ull << 40, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_SERVED(get(~0ull, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0u) << "as the driver leaves it";
  EXPECT_NE(must_get(mib), 0u);
}

TEST_F(router, kinds_do_not_mix) {
  CUdeviceptr const device = must_get(1000);
  CUdeviceptr const host = must_get(1000, nullptr, first_context, driver::memory_kind::host);
  EXPECT_SERVED(give(host), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SERVED(give(device, nullptr, first_context, driver::memory_kind::host), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SERVED(give(host, nullptr, first_context, driver::memory_kind::host), CUDA_SUCCESS);
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, nullptr, first_context, driver::memory_kind::managed));
}

TEST_F(router, an_exported_block_serves_nobody_again) {
  CUdeviceptr const beside = must_get(mib / 2), a = must_get(mib / 2);
  exported(a);
  exported(a + 512);
  EXPECT_SERVED(give(a), CUDA_SUCCESS);
  done();
  EXPECT_TRUE(owns(beside));
  for (int i = 0; i < 8; ++i) EXPECT_NE(must_get(mib / 2), a);
}

// Natively an importer keeps what the exporter frees: so here, once the driver has it back.
TEST_F(router, an_exported_blocks_memory_goes_back_to_the_driver) {
  CUdeviceptr const kept = must_get(mib / 2), a = must_get(mib / 2);
  std::uint64_t const used = driver.used();
  exported(a);
  EXPECT_SERVED(give(a), CUDA_SUCCESS);
  EXPECT_EQ(driver.used(), used) << "a block beside it is in use";
  EXPECT_SERVED(give(kept), CUDA_SUCCESS);
  done();
  give_back(first_context, resource::give_back_scope::all);
  EXPECT_EQ(driver.used(), 0u);
}

TEST_F(router, temporaries_are_exported_for_ever) {
  CUdeviceptr const lasting = must_get(1000);
  std::uint64_t highest = 0;
  for (int round = 0; round < 500; ++round) {
    for (std::uint64_t const bytes : {mib / 4, 3 * mib, 40 * mib}) {
      CUdeviceptr const a = must_get(bytes);
      exported(a);
      EXPECT_SERVED(give(a), CUDA_SUCCESS);
    }
    if (round == 2) highest = driver.used();
    if (round > 2) {
      ASSERT_EQ(driver.used(), highest) << round;
    }
  }
  EXPECT_SERVED(give(lasting), CUDA_SUCCESS);
}

TEST_F(router, temporaries_of_ever_new_sizes_are_exported_for_ever) {
  must_get(1000);
  for (std::uint64_t round = 0; round < 2000; ++round) {
    CUdeviceptr const a = must_get(mib + round * 64 * 1024);
    exported(a);
    EXPECT_SERVED(give(a), CUDA_SUCCESS);
    ASSERT_LT(driver.used(), 1024 * mib) << round;
  }
}

TEST_F(router, each_life_of_an_address_has_a_number_of_its_own) {
  CUdeviceptr const a = must_get(1000);
  CUdeviceptr const b = must_get(1000);
  std::uint64_t const first = identity_of(a);
  EXPECT_EQ(identity_of(a + 999), first);
  EXPECT_NE(identity_of(b), first);
  EXPECT_NE(first, 0u);
  EXPECT_SERVED(give(a), CUDA_SUCCESS);
  EXPECT_EQ(identity_of(a), 0u) << "nobody has it";
  done();
  ASSERT_EQ(must_get(1000), a);
  EXPECT_NE(identity_of(a), first);
  EXPECT_NE(identity_of(a), identity_of(b));
}

// A kernel faulted: no block of that context serves or is taken back, whatever the driver knows of its
// address.
TEST_F(router, a_lost_context_serves_nobody) {
  CUdeviceptr const a = must_get(1000), b = must_get(1000);
  EXPECT_SERVED(give(b), CUDA_SUCCESS);
  done();
  driver.fail("cuCtxRecordEvent", CUDA_ERROR_ILLEGAL_ADDRESS, 1);
  context_lost();
  EXPECT_SERVED(give(a), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SERVED(give(a), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr none = 0;
  EXPECT_PASS(get(1000, &none));
  context_gone(first_context);
  EXPECT_PASS(give(a));
}

// The request that had to ask the driver is told first.
TEST_F(router, a_refusal_may_tell_that_the_context_is_lost) {
  CUdeviceptr const a = must_get(1000);
  driver.fail("cuMemAlloc_v2", CUDA_ERROR_ILLEGAL_ADDRESS, 1000);
  CUdeviceptr none = 0;
  EXPECT_SERVED(get(900 * mib, &none), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SERVED(give(a), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(router, free_can_be_a_barrier) {
  restart(free_mode::synchronize);
  driver.manual_events(true);
  CUdeviceptr const a = must_get(1000);
  EXPECT_SERVED(give(a), CUDA_SUCCESS);
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 1);
  EXPECT_EQ(must_get(1000), a);
  driver.fail("cuEventSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SERVED(give(a), CUDA_ERROR_ILLEGAL_ADDRESS);
  capture_begins(first_context, stream(1), CU_STREAM_CAPTURE_MODE_RELAXED);
  driver.capture(stream(1));
  EXPECT_SERVED(give(a), CUDA_SUCCESS);
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 2);
  driver.end_capture(stream(1));
  capture_ended(first_context, stream(1));
}

TEST_F(router, where_all_work_runs_on_one_stream_a_freed_block_serves_at_once) {
  restart(free_mode::one_stream);
  driver.manual_events(true);
  CUdeviceptr const a = must_get(1000);
  give(a);
  EXPECT_EQ(must_get(1000), a);
  EXPECT_EQ(driver.calls("cuCtxRecordEvent"), 0);
  CUdeviceptr const b = must_get(3 * mib);
  give(b);
  EXPECT_EQ(must_get(2 * mib), b);  // a piece of it: it lies where blocks merge by now
}

TEST_F(router, a_second_stream_ends_the_promise_of_one) {
  restart(free_mode::one_stream);
  driver.manual_events(true);
  CUdeviceptr const a = must_get(1000);
  give(a);
  stream_created(first_context, stream(1));
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 1);  // work of before may use what was handed out since
  EXPECT_EQ(must_get(1000), a);
  give(a);
  EXPECT_NE(must_get(1000), a);
  stream_created(first_context, stream(2));
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 1);
}

TEST_F(router, a_second_context_ends_the_promise_of_one_stream) {
  restart(free_mode::one_stream);
  driver.manual_events(true);
  CUdeviceptr const a = must_get(1000);
  CUdeviceptr other = 0;
  EXPECT_SERVED(get(1000, &other, nullptr, second_context), CUDA_SUCCESS);
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 1);
  give(a);
  EXPECT_NE(must_get(1000), a);
}

TEST_F(router, give_back_returns_what_is_empty) {
  CUdeviceptr const a = must_get(2 * mib);
  EXPECT_EQ(give_back(first_context, resource::give_back_scope::all), 0u);
  give(a);
  EXPECT_EQ(give_back(first_context, resource::give_back_scope::all), 2 * mib);
  EXPECT_EQ(driver.used(), 0u);
  EXPECT_EQ(give_back(second_context, resource::give_back_scope::all), 0u);
}

TEST_F(router, the_ledger_adds_up) {
  auto const before = stats::local().devices[0];
  CUdeviceptr const a = must_get(1000), b = must_get(3 * mib + 1);
  give(a);
  auto const& now = stats::local().devices[0];
  EXPECT_EQ(now.allocated_blocks - before.allocated_blocks, 2u);
  EXPECT_EQ(now.allocated_requested - before.allocated_requested, 1000 + 3 * mib + 1);
  EXPECT_EQ(now.freed_requested - before.freed_requested, 1000u);
  std::uint64_t const out =
      now.allocated_handed - before.allocated_handed - (now.freed_handed - before.freed_handed);
  EXPECT_EQ(out, 3 * mib + 512);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), driver.used());
  EXPECT_EQ(driver.used() - out, idle_bytes(first_context));
  give(b);
  EXPECT_EQ(driver.used(), idle_bytes(first_context));
}

// Natively cudaFreeHost waits for its own context alone (tests/gpu/freed_beside_another_device.cu); a kernel
// of another one may be waiting for this thread.
TEST_F(router, pooled_host_memory_waits_for_no_work_of_other_contexts) {
  using tests::first_context, tests::second_context;
  must_get(1000, nullptr, second_context);  // that context is known from here on
  CUdeviceptr const first = must_get(1000, nullptr, first_context, driver::memory_kind::host);
  int const waits = driver.calls("cuEventSynchronize");
  capture_begins(second_context, tests::stream(9), CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_SERVED(give(first, nullptr, first_context, driver::memory_kind::host), CUDA_SUCCESS);
  EXPECT_EQ(driver.calls("cuEventSynchronize"), waits);
  capture_ended(second_context, tests::stream(9));
  done();
  EXPECT_EQ(must_get(1000, nullptr, first_context, driver::memory_kind::host), first);
}

}  // namespace
}  // namespace gpumem::route
