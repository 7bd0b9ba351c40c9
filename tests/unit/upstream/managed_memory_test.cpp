// Advice for managed memory and moving it ahead of its use: which driver call, for which device, on which
// stream; in the form that the driver has.
#include <string>

#include "core/resource/adaptors/prefetch.hpp"
#include "core/upstream/cuda_async.hpp"
#include "core/upstream/managed.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct call {
  std::string what;
  std::uint64_t address;
  std::uint64_t bytes;
  int device;
  CUstream stream = nullptr;
};
std::vector<call> calls;
CUresult answer = CUDA_SUCCESS;

int device_of(CUmemLocation where) {
  return where.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : where.id;
}
CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUmemLocation where) {
  calls.push_back({"advise " + std::to_string(what), address, bytes, device_of(where)});
  return answer;
}
CUresult prefetch_now(CUdeviceptr address, size_t bytes, CUmemLocation where, unsigned, CUstream stream) {
  calls.push_back({"prefetch", address, bytes, device_of(where), stream});
  return answer;
}
CUresult former_advise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUdevice device) {
  calls.push_back({"former advise " + std::to_string(what), address, bytes, device});
  return answer;
}
CUresult former_prefetch(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  calls.push_back({"former prefetch", address, bytes, device, stream});
  return answer;
}

CUmemoryPool const managed_pool = reinterpret_cast<CUmemoryPool>(0x80);
std::vector<std::uint64_t> thresholds;

CUresult find_managed_pool(CUmemoryPool* pool, CUmemLocation* where, CUmemAllocationType type) {
  EXPECT_EQ(type, CU_MEM_ALLOCATION_TYPE_MANAGED);
  EXPECT_EQ(where->type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(where->id, 0);
  if (answer == CUDA_SUCCESS) *pool = managed_pool;
  return answer;
}
CUresult set_pool(CUmemoryPool pool, CUmemPool_attribute what, void* value) {
  EXPECT_EQ(pool, managed_pool);
  EXPECT_EQ(what, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
  thresholds.push_back(*static_cast<std::uint64_t*>(value));
  return CUDA_SUCCESS;
}

struct managed_memory : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    here->home.kind = driver::memory_kind::managed;
    driver::real.cuMemAdvise_v2 = advise;
    driver::real.cuMemPrefetchAsync_v2 = prefetch_now;
    driver::real.advise_8000 = former_advise;
    driver::real.prefetch_8000 = former_prefetch;
    driver::real.cuMemGetDefaultMemPool = find_managed_pool;
    driver::real.cuMemPoolSetAttribute = set_pool;
    driver.attributes.clear();
    thresholds.clear();
    calls.clear();
    answer = CUDA_SUCCESS;
  }
  upstream::cuda_async& make_managed_pool() {
    return *new upstream::cuda_async(here->home, 0, {.own_pool = false, .managed = true});
  }
  std::string refusal_of_managed_pool() {
    try {
      make_managed_pool();
      return "it was built";
    } catch (driver::allocation_failed const& failed) {
      EXPECT_EQ(failed.code(), CUDA_ERROR_NOT_SUPPORTED);
      return failed.what();
    }
  }
  upstream::managed& make_managed(upstream::managed::options const& o = {}) {
    return *new upstream::managed(here->home, 0, o);
  }
  using place = upstream::managed::location;
};

std::string advice(CUmem_advise what) {
  return "advise " + std::to_string(what);
}

TEST_F(managed_memory, is_left_to_the_driver_unless_told) {
  make_managed().reserve({.bytes = 4096});
  EXPECT_TRUE(calls.empty());
}

TEST_F(managed_memory, advice_is_given_for_every_segment) {
  upstream::managed& m = make_managed({.preferred_location = place::device, .read_mostly = true});
  extent const memory = m.reserve({.bytes = 4096});
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].what, advice(CU_MEM_ADVISE_SET_PREFERRED_LOCATION));
  EXPECT_EQ(calls[0].address, memory.address);
  EXPECT_EQ(calls[0].bytes, 4096u);
  EXPECT_EQ(calls[0].device, 0);
  EXPECT_EQ(calls[1].what, advice(CU_MEM_ADVISE_SET_READ_MOSTLY));
  make_managed({.preferred_location = place::host}).reserve({.bytes = 4096});
  EXPECT_EQ(calls.back().device, CU_DEVICE_CPU);
}

TEST_F(managed_memory, refused_advice_does_not_refuse_memory) {
  answer = CUDA_ERROR_INVALID_DEVICE;
  EXPECT_NE(make_managed({.read_mostly = true}).reserve({.bytes = 4096}).address, 0u);
}

TEST_F(managed_memory, an_older_driver_gets_the_former_calls) {
  driver::real.cuMemAdvise_v2 = nullptr;
  driver::real.cuMemPrefetchAsync_v2 = nullptr;
  upstream::managed& m = make_managed({.preferred_location = place::host});
  get(make<prefetch>(0, make<pool>(pool_options{}, m)), 1000);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].what, "former " + advice(CU_MEM_ADVISE_SET_PREFERRED_LOCATION));
  EXPECT_EQ(calls[0].device, CU_DEVICE_CPU);
  EXPECT_EQ(calls[1].what, "former prefetch");
}

TEST_F(managed_memory, a_block_is_moved_on_the_stream_of_its_request) {
  prefetch& p = make<prefetch>(3, make<pool>(pool_options{}, make_managed()));
  space::handle const h = get(p, 1000, 2);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].address, block(h).begin());
  EXPECT_EQ(calls[0].bytes, 1000u);
  EXPECT_EQ(calls[0].device, 3);
  EXPECT_EQ(calls[0].stream, tests::stream(2));
  give(p, h, 2);
  EXPECT_EQ(get(p, 1000, 2), h);
  EXPECT_EQ(calls.size(), 2u) << "a block of the cache may lie on the host by now";
}

TEST_F(managed_memory, without_a_stream_it_is_moved_on_one_of_its_own) {
  prefetch& p = make<prefetch>(0, make<pool>(pool_options{}, make_managed()));
  get(p, 1000);
  get(p, 1000);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_NE(calls[0].stream, nullptr);
  EXPECT_EQ(calls[0].stream, calls[1].stream);
}

TEST_F(managed_memory, nothing_is_moved_while_the_context_captures) {
  prefetch& p = make<prefetch>(0, make<pool>(pool_options{}, make_managed()));
  here->epochs.capture_begins({tests::stream(1)});
  EXPECT_NE(get(p, 1000), space::none);
  EXPECT_TRUE(calls.empty());
  here->epochs.capture_ended(tests::stream(1));
}

TEST_F(managed_memory, below_a_pool_segments_are_moved) {
  auto& source = *new prefetch_source(here->home, 1, 0, make_managed());
  pool& p = make<pool>(pool_options{}, source);
  get(p, 1000);
  get(p, 1000);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].bytes, 2 * mib);
}

TEST_F(managed_memory, a_managed_pool_is_the_devices_own_and_keeps_all) {
  auto& gauges = stats::gauges(0);
  std::uint64_t const reserved = stats::get(gauges.reserved), movable = stats::get(gauges.movable);
  static std::atomic<std::uint64_t> const peers{2};
  here->home.peers = &peers;
  auto& p = make_managed_pool();
  EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync"), 0);
  extent const memory = p.reserve({.bytes = 5000});
  EXPECT_EQ(memory.bytes, 2 * driver::managed_page) << "advice for it reaches no other block";
  EXPECT_EQ(thresholds, std::vector<std::uint64_t>{~std::uint64_t{0}});
  EXPECT_EQ(upstream::cuda_async::in_default_pool(0), 0u) << "which is another pool";
  EXPECT_EQ(stats::get(gauges.movable) - movable, memory.bytes) << "it need not lie on the device";
  p.peers_changed();
  EXPECT_EQ(driver.calls("cuMemPoolSetAccess"), 0) << "open to all already";
  p.release(memory, {});
  p.trim(gpumem::resource::give_back_scope::all);
  EXPECT_EQ(driver.calls("cuMemFreeAsync"), 1);
  EXPECT_EQ(driver.used(), 0u);
  p.forget();
  EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 0) << "a default pool stays";
  EXPECT_EQ(stats::get(gauges.reserved), reserved);
  EXPECT_EQ(stats::get(gauges.movable), movable);
}

// It is freed once, by whoever still can: here the context is gone, and the pool is not.
TEST_F(managed_memory, of_a_managed_pool_outlives_its_context) {
  std::uint64_t const movable = stats::get(stats::gauges(0).movable);
  auto& p = make_managed_pool();
  extent const memory = p.reserve({.bytes = 4096});
  driver.fail("cuMemFree_v2", CUDA_ERROR_INVALID_CONTEXT);
  p.lost(memory);
  p.forget();
  EXPECT_EQ(driver.used(), 4096u);
  auto& next = make_managed_pool();
  extent const fresh = next.reserve({.bytes = 4096});
  EXPECT_EQ(driver.used(), 4096u) << "the old one went first";
  EXPECT_EQ(driver.calls("cuMemFree_v2"), 2);
  next.release(fresh, {});
  EXPECT_EQ(driver.used(), 0u);
  EXPECT_EQ(stats::get(stats::gauges(0).movable), movable);
}

TEST_F(managed_memory, a_managed_pool_that_is_not_there_is_refused_with_the_remedy) {
  auto const expect_refusal = [&](char const* why) {
    std::string const text = refusal_of_managed_pool();
    EXPECT_NE(text.find(why), text.npos) << text;
    EXPECT_NE(text.find("use a pool over managed instead"), text.npos) << text;
  };
  answer = CUDA_ERROR_NOT_SUPPORTED;
  expect_refusal("the device has no managed memory pool");
  answer = CUDA_SUCCESS;
  for (auto const needed :
       {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED}) {
    driver.attributes[needed] = 0;
    expect_refusal("the device has no managed memory pool");
    driver.attributes.clear();
  }
  driver::real.cuMemGetDefaultMemPool = nullptr;
  expect_refusal("CUDA 13.0");
}

}  // namespace
}  // namespace gpumem::resource
