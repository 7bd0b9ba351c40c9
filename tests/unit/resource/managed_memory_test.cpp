// Advice for managed memory and moving it ahead of its use: which driver call, for which device, on which
// stream; in the form that the driver has.
#include <string>

#include "core/resource/adaptors/prefetch.hpp"
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

struct managed_memory : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    here->home.kind = driver::memory_kind::managed;
    driver::real.cuMemAdvise_v2 = advise;
    driver::real.cuMemPrefetchAsync_v2 = prefetch_now;
    driver::real.advise_8000 = former_advise;
    driver::real.prefetch_8000 = former_prefetch;
    calls.clear();
    answer = CUDA_SUCCESS;
  }
  upstream::managed& make_managed(upstream::managed::options const& o = {}) {
    return *new upstream::managed(here->home, 0, o);
  }
  using place = upstream::managed::place;
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

}  // namespace
}  // namespace gpumem::resource
