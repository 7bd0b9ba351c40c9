// The router over the scripted driver. Each test starts a router of its own; what it leaves behind stays
// reachable, as the router is never destroyed.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "core/resource/chain.hpp"
#include "core/resource/pools/cache/thread_slots.hpp"
#include "core/resource/pools/pool.hpp"
#include "core/route/requests/hot_path.hpp"
#include "core/route/router.hpp"
#include "core/route/router_state.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/upstream/cuda.hpp"
#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::route {

inline std::vector<void*> left_behind;

// A pool over cuda for the device, one over pinned_host for the host, passthrough for managed.
inline std::unique_ptr<resource::chain> make_pools(resource::chain_context const& home) {
  if (home.kind == driver::memory_kind::managed) return nullptr;
  auto built = std::make_unique<resource::chain>();
  resource::source* below = nullptr;
  if (home.kind == driver::memory_kind::host) {
    below = &built->add_source(std::make_unique<upstream::pinned_host>(home, 1, 0));
  } else {
    below = &built->add_source(std::make_unique<upstream::cuda>(home, 1));
  }
  built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, *below));
  return built;
}

struct route_fixture : testing::Test {
  tests::fake_driver& driver = tests::fake_driver::instance();

  void SetUp() override {
    driver.reset();
    driver.set_context(tests::second_context, 1);
    start(make_pools, free_mode::deferred);
  }
  void TearDown() override {
    EXPECT_FALSE(driver.capture_hurt());
    for (CUcontext const c : {tests::first_context, tests::second_context}) context_gone(c);
    EXPECT_EQ(stream_order::active_captures.load(), 0);
    left_behind.push_back(present);
    left_behind.push_back(resource::own_slots);
    forked_child();
  }
  static void restart(free_mode free, chain_factory factory = make_pools) {
    left_behind.push_back(present);
    present = nullptr;
    start(factory, free);
  }

  static outcome get(std::uint64_t bytes, CUdeviceptr* result, CUstream on = nullptr,
                     CUcontext context = tests::first_context,
                     driver::memory_kind kind = driver::memory_kind::device) {
    tests::in_context const here(context);
    return allocate(
        {.bytes = bytes, .kind = kind, .stream_ordered = on != nullptr, .context = context, .stream = on},
        result);
  }
  static CUdeviceptr must_get(std::uint64_t bytes, CUstream on = nullptr,
                              CUcontext context = tests::first_context,
                              driver::memory_kind kind = driver::memory_kind::device) {
    CUdeviceptr address = 0;
    outcome const o = get(bytes, &address, on, context, kind);
    EXPECT_TRUE(o.served());
    EXPECT_EQ(o.code, CUDA_SUCCESS);
    return address;
  }
  static outcome give(CUdeviceptr address, CUstream on = nullptr, CUcontext context = tests::first_context,
                      driver::memory_kind kind = driver::memory_kind::device) {
    tests::in_context const here(context);
    driver::free_request const asked{
        .address = address, .kind = kind, .stream_ordered = on != nullptr, .context = context, .stream = on};
    outcome const o = release(asked);
    return o.code == outcome::refused_since ? outcome{refused_since(asked)} : o;  // as the shim does
  }
  static void done() {
    for (CUcontext const c : {tests::first_context, tests::second_context})
      synchronize_done(c, synchronize_begins(c));
  }
};

#define EXPECT_SERVED(call, wanted)     \
  do {                                  \
    outcome const o = (call);           \
    EXPECT_TRUE(o.served()) << #call;   \
    EXPECT_EQ(o.code, wanted) << #call; \
  } while (false)
#define EXPECT_PASS(call) EXPECT_FALSE((call).served()) << #call

}  // namespace gpumem::route
