// Access between devices: what the program enables for its contexts reaches the pools of cuda_async, before
// and after they exist, and ends with what ends it; a shared default pool takes its stream-ordered calls
// along.
#include <set>

#include "core/upstream/cuda_async.hpp"
#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

using tests::first_context;
using tests::second_context;
using tests::stream;
using devices = std::set<int>;
CUcontext const third_context = reinterpret_cast<CUcontext>(0x3);

template <bool own_pool>
std::unique_ptr<resource::chain> make_pool_over_cuda_async(resource::chain_context const& home) {
  if (home.kind != driver::memory_kind::device) return nullptr;
  auto built = std::make_unique<resource::chain>();
  upstream::cuda_async::options options;
  options.own_pool = own_pool;
  auto& below = built->add_source(std::make_unique<upstream::cuda_async>(home, 1, options));
  built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
  return built;
}

struct peer_access : route_fixture {
  void SetUp() override {
    route_fixture::SetUp();
    driver.set_context(third_context, 1);  // a second one of device 1
    use(make_pool_over_cuda_async<true>);
  }
  static void use(chain_factory factory) {
    left_behind.push_back(present);
    present = nullptr;
    start(factory, free_mode::deferred);
  }
};

TEST_F(peer_access, reaches_a_pool_that_exists_and_is_taken_back) {
  must_get(1000);
  EXPECT_EQ(driver.pool_users(), devices{});
  peer_access_enabled(second_context, first_context);
  EXPECT_EQ(driver.pool_users(), devices{1});
  peer_access_disabled(second_context, first_context);
  EXPECT_EQ(driver.pool_users(), devices{});
}

TEST_F(peer_access, reaches_a_pool_made_later) {
  peer_access_enabled(second_context, first_context);
  EXPECT_EQ(driver.pool_users(), devices{});
  must_get(1000);
  EXPECT_EQ(driver.pool_users(), devices{1});
}

TEST_F(peer_access, goes_one_way) {
  must_get(1000);
  peer_access_enabled(first_context, second_context);
  EXPECT_EQ(driver.pool_users(), devices{}) << "device 0 may touch device 1, not the other way";
  must_get(1000, nullptr, second_context);
  EXPECT_EQ(driver.pool_users(), devices{0});
}

TEST_F(peer_access, of_two_contexts_of_a_device_lasts_as_long_as_one_has_it) {
  must_get(1000);
  peer_access_enabled(second_context, first_context);
  peer_access_enabled(third_context, first_context);
  peer_access_disabled(second_context, first_context);
  EXPECT_EQ(driver.pool_users(), devices{1});
  context_gone(third_context);
  EXPECT_EQ(driver.pool_users(), devices{});
}

TEST_F(peer_access, beside_a_capture_costs_it_nothing) {
  must_get(1000);
  driver.capture(stream(7));  // that nobody has told of yet
  peer_access_enabled(second_context, first_context);
  EXPECT_EQ(driver.pool_users(), devices{1});
  EXPECT_FALSE(driver.capture_hurt());
  driver.end_capture(stream(7));
}

TEST_F(peer_access, that_the_driver_refuses_is_tried_again_at_the_next_change) {
  must_get(1000);
  driver.fail("cuMemPoolSetAccess", CUDA_ERROR_INVALID_DEVICE);
  peer_access_enabled(second_context, first_context);
  EXPECT_EQ(driver.pool_users(), devices{});
  peer_access_enabled(first_context, second_context);
  EXPECT_EQ(driver.pool_users(), devices{1});
}

TEST_F(peer_access, to_the_default_pool_is_given_and_never_taken) {
  use(make_pool_over_cuda_async<false>);
  must_get(1000);
  peer_access_enabled(second_context, first_context);
  EXPECT_EQ(driver.pool_users(), devices{1});
  peer_access_disabled(second_context, first_context);
  EXPECT_EQ(driver.pool_users(), devices{1}) << "the program may have given it too";
}

TEST_F(peer_access, of_a_chain_without_driver_pools_needs_no_call) {
  use(make_pools);
  must_get(1000);
  peer_access_enabled(second_context, first_context);
  EXPECT_EQ(driver.calls("cuMemPoolSetAccess"), 0);
}

TEST_F(peer_access, to_a_shared_default_pool_is_the_drivers) {
  auto const pool_of = [](std::uintptr_t device) { return reinterpret_cast<CUmemoryPool>(0x78 + device); };
  must_get(1000, stream(1));
  pool_shared(reinterpret_cast<CUmemoryPool>(0x999), 1);  // a pool of the program's own
  pool_shared(pool_of(0), 0);                             // its own device
  must_get(1000, stream(1));
  pool_shared(pool_of(0), 1);
  CUdeviceptr unused = 0;
  EXPECT_PASS(get(1000, &unused, stream(1)));
  must_get(1000);  // plain memory stays
  must_get(1000, stream(3), second_context);
}

TEST_F(peer_access, to_a_default_pool_that_is_not_the_current_one_changes_nothing) {
  present->serves_pools = true;
  CUmemPoolProps plain{};
  plain.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  plain.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  auto const own = reinterpret_cast<CUmemoryPool>(0x999);
  must_get(1000, stream(1));
  pool_made(own, plain);
  pool_chosen(0, own);
  must_get(1000, stream(1));
  pool_shared(reinterpret_cast<CUmemoryPool>(0x78), 1);
  must_get(1000, stream(1));
  EXPECT_EQ(pool_ends(own).current_on, 1u);
}

TEST_F(peer_access, before_the_start_and_after_a_fork_is_harmless) {
  left_behind.push_back(present);
  forked_child();
  peer_access_enabled(second_context, first_context);
  peer_access_disabled(second_context, first_context);
  start(make_pools, free_mode::deferred);
}

}  // namespace
}  // namespace gpumem::route
