// What the shim reports to the router: captures, streams and contexts that come and go, pools, forks.
#include <atomic>
#include <optional>
#include <string_view>
#include <thread>

#include "core/resource/pools/direct.hpp"
#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

using tests::first_context;
using tests::stream;
using observe = route_fixture;
constexpr auto soon_enough = stream_order::context_visits::patience::ten_seconds;

// As upstreams whose memory outlives the context.
class contextless final : public resource::source {
 public:
  explicit contextless(resource::chain_context const& home) noexcept : below_(home, 1) {}
  resource::extent reserve(resource::allocation_request const& request) override {
    resource::extent memory = below_.reserve(request);
    memory.contextless = true;
    return memory;
  }
  void release(resource::extent const& memory, resource::release_order const& order) noexcept override {
    below_.release(memory, order);
  }

 private:
  upstream::cuda below_;
};

std::unique_ptr<resource::chain> make_contextless_pool(resource::chain_context const& home) {
  if (home.kind != driver::memory_kind::device) return nullptr;
  auto built = std::make_unique<resource::chain>();
  auto& below = built->add_source(std::make_unique<contextless>(home));
  built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
  return built;
}

TEST_F(observe, a_capturing_streams_memory_is_the_drivers) {
  CUdeviceptr const before = must_get(1000, stream(1));
  capture_begins(first_context, stream(1), CU_STREAM_CAPTURE_MODE_RELAXED);
  driver.capture(stream(1));
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, stream(1)));
  EXPECT_SERVED(give(before, stream(1)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(owns(before));
  // Others go on.
  CUdeviceptr const beside = must_get(1000, stream(2));
  EXPECT_SERVED(give(beside, stream(2)), CUDA_SUCCESS);
  EXPECT_SERVED(give(must_get(1000)), CUDA_SUCCESS);
  must_get(1000, CU_STREAM_LEGACY);
  driver.end_capture(stream(1));
  capture_ended(first_context, stream(1));
  EXPECT_SERVED(give(before, stream(1)), CUDA_SUCCESS);
}

TEST_F(observe, a_handle_used_again_is_another_stream) {
  driver.manual_events(true);
  CUdeviceptr const a = must_get(1000, stream(1));
  give(a, stream(1));
  stream_destroyed(first_context, stream(1));
  driver.new_stream(stream(1));
  stream_created(first_context, stream(1));
  EXPECT_NE(must_get(1000, stream(1)), a) << "freed on a stream that is gone and not known to be done";
  done();
  EXPECT_EQ(must_get(1000, stream(1)), a);
}

TEST_F(observe, streams_that_come_and_go_for_ever_keep_their_order) {
  for (int round = 0; round < 5000; ++round) {
    driver.new_stream(stream(1));
    stream_created(first_context, stream(1));
    CUdeviceptr const a = must_get(1000, stream(1));
    ASSERT_TRUE(give(a, stream(1)).served());
    ASSERT_EQ(must_get(1000, stream(1)), a) << "round " << round << " has no slot";
    ASSERT_TRUE(give(a, stream(1)).served());
    stream_destroyed(first_context, stream(1));
  }
}

TEST_F(observe, threads_that_come_and_go_for_ever_keep_their_order) {
  for (int round = 0; round < 3000; ++round) {
    driver.new_stream(CU_STREAM_PER_THREAD);
    std::jthread([&] {
      CUdeviceptr const a = must_get(1000, CU_STREAM_PER_THREAD);
      ASSERT_TRUE(give(a, CU_STREAM_PER_THREAD).served());
      ASSERT_EQ(must_get(1000, CU_STREAM_PER_THREAD), a) << "round " << round << " has no slot";
      ASSERT_TRUE(give(a, CU_STREAM_PER_THREAD).served());
    }).join();
  }
}

TEST_F(observe, what_a_thread_freed_on_its_stream_waits_when_it_has_ended) {
  driver.manual_events(true);
  CUdeviceptr a = 0;
  std::jthread([&] {
    a = must_get(1000, CU_STREAM_PER_THREAD);
    give(a, CU_STREAM_PER_THREAD);
  }).join();
  driver.new_stream(CU_STREAM_PER_THREAD);
  std::jthread(
      [&] { EXPECT_NE(must_get(1000, CU_STREAM_PER_THREAD), a) << "it has the slot, not the work"; });
}

TEST_F(observe, memory_of_a_context_that_is_gone_is_forgotten) {
  CUdeviceptr const a = must_get(1000);
  give(must_get(2000));
  context_gone(first_context);
  EXPECT_FALSE(owns(a));
  EXPECT_PASS(give(a));
  EXPECT_EQ(idle_bytes(first_context), 0u);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), 0u);
  // The handle may come back.
  CUdeviceptr const b = must_get(1000);
  EXPECT_TRUE(owns(b));
  EXPECT_SERVED(give(b), CUDA_SUCCESS);
}

// Another thread has made one with the same handle before the end of the first is told.
TEST_F(observe, a_green_context_that_has_the_handle_of_one_that_ended_is_another) {
  auto* const handle = reinterpret_cast<CUcontext>(std::uintptr_t{0x6000});
  green_context_made(handle, first_context);
  green_context* const first = green_context_of(handle);
  ASSERT_NE(first, nullptr);
  capture_begins(handle, stream(1), CU_STREAM_CAPTURE_MODE_RELAXED);
  green_context_made(handle, first_context);
  capture_begins(handle, stream(2), CU_STREAM_CAPTURE_MODE_GLOBAL);
  green_context_gone(*first);
  EXPECT_EQ(home_of(handle), first_context) << "the second is known";
  EXPECT_EQ(stream_order::active_captures.load(), 1) << "its capture goes on";
  EXPECT_EQ(stream_order::watching_captures.load(), 1);
  green_context_gone(*green_context_of(handle));
  EXPECT_EQ(home_of(handle), handle);
  EXPECT_EQ(stream_order::active_captures.load(), 0);
}

// The driver has ended the context, and given its handle to another one, before the call returns.
TEST_F(observe, a_context_that_has_ended_serves_nobody_though_nobody_said_so) {
  CUdeviceptr const old = must_get(1000), idle = must_get(3000);
  give(idle);
  done();
  context_ending call(first_context, soon_enough);
  EXPECT_EQ(must_get(3000), idle) << "it may end, but has not";
  driver.end_context(first_context, true);
  CUdeviceptr const fresh = must_get(1000);
  EXPECT_FALSE(owns(old));
  EXPECT_PASS(give(old));
  EXPECT_EQ(driver.allocations(), 1u) << "of the context that is there now";
  EXPECT_TRUE(call.settle(false));
  EXPECT_TRUE(owns(fresh)) << "it was made meanwhile, and lives";
  EXPECT_SERVED(give(fresh), CUDA_SUCCESS);
}

TEST_F(observe, a_context_that_may_be_ending_is_entered_by_nobody_else) {
  using stream_order::context_visits::if_ending;
  must_get(1000);
  {
    context_ending call(tests::second_context, soon_enough);
    EXPECT_EQ(present->known.find_or_make(tests::second_context), nullptr);
    EXPECT_FALSE(stream_order::context_visits::enter(tests::second_context, if_ending::refuse));
  }
  EXPECT_TRUE(stream_order::context_visits::enter(tests::second_context, if_ending::refuse));
  stream_order::context_visits::leave(tests::second_context);
  EXPECT_NE(present->known.find_or_make(tests::second_context), nullptr);
}

TEST_F(observe, a_free_finds_that_its_context_has_ended) {
  CUdeviceptr const old = must_get(1000);
  context_ending call(first_context, soon_enough);
  driver.end_context(first_context, false);
  EXPECT_PASS(give(old));
  EXPECT_FALSE(owns(old));
  EXPECT_TRUE(call.settle(true));
}

TEST_F(observe, a_context_met_while_it_might_end_is_well_afterwards) {
  std::optional<context_ending> call(std::in_place, first_context, soon_enough);
  CUdeviceptr const a = must_get(1000);
  EXPECT_FALSE(call->settle(false));
  call.reset();
  EXPECT_TRUE(present->known.find(first_context)->order.well());
  EXPECT_SERVED(give(a), CUDA_SUCCESS);
  // The other way round: it was known, ended, and was met again.
  call.emplace(first_context, soon_enough);
  driver.end_context(first_context, true);
  must_get(1000);
  EXPECT_TRUE(call->settle(false));
  call.reset();
  EXPECT_TRUE(present->known.find(first_context)->order.well());
}

// A driver before 12.0 cannot tell contexts apart: the call's own success is all there is.
TEST_F(observe, contexts_that_cannot_be_told_apart_end_when_the_call_says_so) {
  driver::real.cuCtxGetId = nullptr;
  CUdeviceptr const a = must_get(1000);
  {
    context_ending call(first_context, soon_enough);
    EXPECT_FALSE(call.settle(false));
  }
  EXPECT_TRUE(owns(a));
  context_ending call(first_context, soon_enough);
  EXPECT_TRUE(call.settle(true));
  EXPECT_FALSE(owns(a));
}

// In a host function it answers nothing, and the end waits for that function: nothing may wait for the end.
TEST_F(observe, a_free_that_such_a_driver_says_nothing_about_is_the_drivers) {
  driver::real.cuCtxGetId = nullptr;
  driver::real.cuPointerGetAttribute = [](void*, CUpointer_attribute, CUdeviceptr) {
    return CUDA_ERROR_NOT_PERMITTED;
  };
  CUdeviceptr const a = must_get(1000);
  context_ending call(first_context, soon_enough);
  EXPECT_PASS(give(a));
  EXPECT_FALSE(call.settle(false));
  EXPECT_TRUE(owns(a));
}

// While a call runs that may end the context of `a`, such a driver says this of the address.
template <CUresult answer>
void expect_free_waits_for_the_end(CUdeviceptr a) {
  static std::atomic<bool> asked;
  asked = false;
  driver::real.cuPointerGetAttribute = [](void* context, CUpointer_attribute, CUdeviceptr) {
    asked = true;
    *static_cast<CUcontext*>(context) = nullptr;
    return answer;
  };
  context_ending call(first_context, soon_enough);
  std::jthread freeing([&] { EXPECT_PASS(route_fixture::give(a)); });
  while (!asked) std::this_thread::yield();
  EXPECT_TRUE(call.settle(true));
  freeing.join();
  EXPECT_FALSE(owns(a));
}

TEST_F(observe, a_free_of_memory_that_such_a_driver_gave_to_others_waits_for_the_end) {
  driver::real.cuCtxGetId = nullptr;
  expect_free_waits_for_the_end<CUDA_ERROR_INVALID_VALUE>(must_get(1000));
}

// A pool that the program made may have the address by now: no context owns its memory.
TEST_F(observe, a_free_of_memory_that_a_programs_pool_has_by_now_waits_for_the_end) {
  driver::real.cuCtxGetId = nullptr;
  expect_free_waits_for_the_end<CUDA_SUCCESS>(must_get(1000));
}

// What the chain itself has from such a pool, or from cuMemCreate, outlives the context: it stays the
// chain's.
TEST_F(observe, memory_that_no_context_owns_is_freed_while_its_context_may_end) {
  driver::real.cuCtxGetId = nullptr;
  driver::real.cuPointerGetAttribute = [](void* context, CUpointer_attribute, CUdeviceptr) {
    *static_cast<CUcontext*>(context) = nullptr;
    return CUDA_SUCCESS;
  };
  restart(free_mode::deferred, make_contextless_pool);
  CUdeviceptr const a = must_get(1000);
  context_ending call(first_context, soon_enough);
  EXPECT_SERVED(give(a), CUDA_SUCCESS);
  EXPECT_FALSE(call.settle(false));
}

TEST_F(observe, a_synchronisation_of_a_context_that_ended_says_nothing_of_the_next) {
  driver.manual_events(true);
  must_get(1000);
  for (int i = 0; i < 100; ++i) done();
  std::uint64_t const mark = synchronize_begins(first_context);
  {
    context_ending call(first_context, soon_enough);
    driver.end_context(first_context, true);
    EXPECT_TRUE(call.settle(true));
  }
  CUdeviceptr const a = must_get(1000);
  give(a);
  synchronize_done(first_context, mark);
  EXPECT_NE(must_get(1000), a) << "its work is not known to be done";
}

// A kernel faulted. While a request hears of it another thread resets the device, and goes on.
TEST_F(observe, the_loss_of_a_context_that_ended_is_not_the_next_ones) {
  CUdeviceptr fresh = 0, none = 0;
  must_get(1000);
  std::atomic<bool> once{false};
  driver.at_call([&](char const* name) {
    if (std::string_view(name) != "cuMemAlloc_v2" || once.exchange(true)) return;
    std::thread([&] {
      context_ending call(first_context, soon_enough);
      driver.end_context(first_context, true);
      EXPECT_TRUE(call.settle(true));
      fresh = must_get(1000);
    }).join();
    driver.fail("cuMemAlloc_v2", CUDA_ERROR_ILLEGAL_ADDRESS);
  });
  get(900ull << 20, &none);
  driver.at_call(nullptr);
  ASSERT_TRUE(owns(fresh));
  EXPECT_TRUE(present->known.find(first_context)->order.well());
  EXPECT_SERVED(give(fresh), CUDA_SUCCESS);
}

TEST_F(observe, a_captures_end_is_not_missed_when_its_context_goes) {
  capture_begins(first_context, stream(1), CU_STREAM_CAPTURE_MODE_RELAXED);
  context_gone(first_context);
  EXPECT_EQ(stream_order::active_captures.load(), 0);
}

TEST_F(observe, captures_end_in_every_context_that_they_joined) {
  using tests::second_context;
  CUdeviceptr const before = must_get(1000, stream(2), second_context);
  capture_begins(first_context, stream(1), CU_STREAM_CAPTURE_MODE_GLOBAL);
  context_entry* const joined = present->known.find(second_context);
  join_begins(second_context);
  join_ended(second_context, true);
  EXPECT_TRUE(joined->order.capturing());
  EXPECT_FALSE(joined->order.well()) << "watched, as every context";
  driver.capture(stream(2));
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, stream(2), second_context));
  driver.end_capture(stream(2));
  context_gone(first_context);
  EXPECT_FALSE(joined->order.capturing());
  EXPECT_TRUE(joined->order.well());
  EXPECT_SERVED(give(before, stream(2), second_context), CUDA_SUCCESS);
}

TEST_F(observe, the_capture_of_a_threads_own_stream_ends_with_the_thread) {
  capture_begins(first_context, stream(1), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  capture_begins(tests::second_context, stream(1), CU_STREAM_CAPTURE_MODE_RELAXED);
  thread_ended(stream(2));
  EXPECT_EQ(stream_order::active_captures.load(), 2);
  thread_ended(stream(1));
  EXPECT_EQ(stream_order::active_captures.load(), 0);
  EXPECT_TRUE(present->known.find(first_context)->order.well());
}

TEST_F(observe, a_stream_that_goes_is_not_asked_who_it_is) {
  give(must_get(1000, stream(1)), stream(1));
  int const asked = driver.calls("cuStreamGetId");
  stream_destroyed(first_context, stream(1));
  EXPECT_EQ(driver.calls("cuStreamGetId"), asked) << "it may have joined a capture";
}

// Each has a context of its own made while a capture runs, which must be told as well.
TEST_F(observe, what_a_capture_forbids_is_refused_by_the_driver) {
  CUdeviceptr const before = must_get(1000);
  CUdeviceptr const ordered = must_get(1000, stream(2));
  capture_begins(first_context, stream(1), CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr result = 7;
  for (CUcontext const c : {first_context, tests::second_context}) {
    driver.fail("cuMemFree_v2", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 2);
    EXPECT_SERVED(get(1000, &result, nullptr, c), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(result, 0u);
    EXPECT_SERVED(get(1000, &result, stream(3), c), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  driver.fail("cuMemFree_v2", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 3);
  EXPECT_SERVED(give(before), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_SERVED(give(before + 512), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);  // whatever the address
  EXPECT_SERVED(give(ordered, stream(2)), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_TRUE(owns(before));
  EXPECT_TRUE(owns(ordered));
  // A thread that exchanged its mode is not refused.
  EXPECT_SERVED(give(must_get(1000)), CUDA_SUCCESS);
  capture_ended(first_context, stream(1));
  int const asked = driver.calls("cuMemFree_v2");
  EXPECT_SERVED(give(before), CUDA_SUCCESS);
  EXPECT_SERVED(give(ordered, stream(2)), CUDA_SUCCESS);
  EXPECT_EQ(driver.calls("cuMemFree_v2"), asked) << "nothing captures: nobody is asked";
}

TEST_F(observe, a_pool_of_the_programs_own_gets_the_ordered_calls) {
  CUdeviceptr const before = must_get(1000, stream(1));
  pool_chosen(0, nullptr);
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, stream(1)));
  EXPECT_SERVED(give(before, stream(1)), CUDA_SUCCESS);
  must_get(1000);
  must_get(1000, stream(3), tests::second_context);
  pool_chosen(-1, nullptr);
  pool_chosen(1 << 20, nullptr);
}

TEST_F(observe, a_lost_context_serves_nobody) {
  CUdeviceptr const a = must_get(1000);
  give(must_get(1000));
  driver.fail("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS, 1000);
  must_get(1ull << 24);  // the ladder asks, and hears it
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused));
  EXPECT_SERVED(give(a), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(observe, a_forked_child_knows_nothing) {
  CUdeviceptr const a = must_get(1000);
  left_behind.push_back(present);
  left_behind.push_back(resource::own_slots);
  stream_order::active_captures = 3;
  forked_child();
  EXPECT_FALSE(owns(a));
  EXPECT_PASS(give(a));
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused));
  EXPECT_EQ(synchronize_begins(first_context), 0u);
  EXPECT_EQ(stream_order::active_captures.load(), 0);
  start(make_pools, free_mode::deferred);
  EXPECT_TRUE(owns(must_get(1000)));
}

TEST_F(observe, what_was_in_use_before_the_first_request_is_kept) {
  constexpr std::uint64_t before = 700u << 20;
  auto& gauges = stats::gauges(0);
  stats::set(gauges.first_unseen, 0);
  stats::set(gauges.first_looked, 0);
  stats::set(gauges.reserved, 0);  // what a test before this one left behind is no part of the fresh driver
  CUdeviceptr others = 0, past_the_hooks = 0;
  ASSERT_EQ(driver.allocate(&others, before), CUDA_SUCCESS);
  must_get(1 << 20);
  EXPECT_EQ(stats::get(gauges.first_unseen), before);
  ASSERT_EQ(driver.allocate(&past_the_hooks, 3u << 20), CUDA_SUCCESS);
  must_get(1u << 30);  // grows, and so looks again
  EXPECT_EQ(stats::get(gauges.first_unseen), before);
  EXPECT_EQ(stats::get(gauges.used) - stats::get(gauges.used_known), before + (3u << 20));
}

// Each request is one allocation of the driver's.
std::unique_ptr<resource::chain> make_without_pool(resource::chain_context const& home) {
  auto built = std::make_unique<resource::chain>();
  auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
  built->add(std::make_unique<resource::direct>(home, 2, below));
  return built;
}

TEST_F(observe, the_first_growth_is_looked_at_only_where_the_driver_may_have_taken_more) {
  auto const looks_of = [&](chain_factory factory, auto between, std::uint64_t bytes) {
    restart(free_mode::deferred, factory);
    stats::set(stats::gauges(0).first_looked, 0);
    int const before = driver.calls("cuMemGetInfo_v2");
    between();
    must_get(bytes);
    int const looks = driver.calls("cuMemGetInfo_v2") - before;
    must_get(1u << 30);
    EXPECT_EQ(driver.calls("cuMemGetInfo_v2") - before, looks + 1) << "every later growth";
    context_gone(first_context);
    return looks;
  };
  auto const nothing = [] {};
  EXPECT_EQ(looks_of(make_pools, nothing, 4096), 1);  // grows by 2 MiB
  EXPECT_EQ(looks_of(make_pools, nothing, 64u << 20), 1);
  EXPECT_EQ(looks_of(make_without_pool, nothing, 64u << 20), 1);
  EXPECT_EQ(looks_of(make_without_pool, nothing, 4096), 2);
  // An earlier call looked: what is unseen may have changed since.
  auto const earlier_call = [] {
    present->known.find_or_make(first_context);
    stats::add(stats::local().hooks[0].calls, 1);
  };
  EXPECT_EQ(looks_of(make_pools, earlier_call, 4096), 2);
}

TEST_F(observe, the_first_look_waits_while_a_stream_captures) {
  auto& gauges = stats::gauges(0);
  stats::set(gauges.first_unseen, 0);
  stats::set(gauges.first_looked, 0);
  stream_order::active_captures = 1;
  int const asked = driver.calls("cuMemGetInfo_v2");
  must_get(1000);
  EXPECT_EQ(driver.calls("cuMemGetInfo_v2"), asked);
  EXPECT_EQ(stats::get(gauges.first_looked), 0u);
  stream_order::active_captures = 0;
}

TEST_F(observe, a_context_that_cannot_be_asked_is_passed_through) {
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, nullptr, reinterpret_cast<CUcontext>(0x999)));
}

}  // namespace
}  // namespace gpumem::route
