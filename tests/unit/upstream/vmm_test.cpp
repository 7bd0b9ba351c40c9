// Pages of vmm, and a pool of our own: what they are made for, which is what cuMemAlloc's memory is for.
#include "core/upstream/vmm.hpp"

#include <array>

#include "core/upstream/cuda_async.hpp"
#include "core/upstream/decompression.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

constexpr auto algorithms = static_cast<CUdevice_attribute>(136);  // MEM_DECOMPRESS_ALGORITHM_MASK

unsigned short usage_of_pages, usage_of_pool;
decltype(driver::real.cuMemCreate) real_create;
decltype(driver::real.cuMemPoolCreate) real_pool;
decltype(driver::real.cuMemUnmap) real_unmap;
int unmaps = 0;

struct vmm_upstream : resource_fixture {
  void SetUp() override {
    resource_fixture::SetUp();
    usage_of_pages = usage_of_pool = 0;
    real_create = driver::real.cuMemCreate;
    real_pool = driver::real.cuMemPoolCreate;
    driver::real.cuMemCreate = [](CUmemGenericAllocationHandle* made, size_t bytes,
                                  CUmemAllocationProp const* wanted, unsigned long long flags) {
      usage_of_pages = wanted->allocFlags.usage;
      return real_create(made, bytes, wanted, flags);
    };
    driver::real.cuMemPoolCreate = [](CUmemoryPool* made, CUmemPoolProps const* wanted) {
      usage_of_pool = wanted->usage;
      return real_pool(made, wanted);
    };
  }
  void take_of_both() {
    below<upstream::vmm>(here->home, std::size_t{0}, std::uint64_t{0}).reserve({.bytes = 2 * mib});
    below<upstream::cuda_async>(here->home, std::size_t{0}, upstream::cuda_async::options{})
        .reserve({.bytes = mib});
  }
};

TEST_F(vmm_upstream, memory_can_be_decompressed_into_where_the_device_does_that) {
  driver.attributes[algorithms] = 7;
  take_of_both();
  EXPECT_EQ(usage_of_pages, upstream::for_decompression);
  EXPECT_EQ(usage_of_pool, upstream::for_decompression);
}

TEST_F(vmm_upstream, nothing_is_asked_for_where_it_does_not) {
  driver.attributes[algorithms] = 0;
  take_of_both();
  EXPECT_EQ(usage_of_pages, 0);
  EXPECT_EQ(usage_of_pool, 0);
}

// The driver unmaps them one by one, and refuses one of them: it is still there, and where it lies others can
// be mapped once it lets go.
TEST_F(vmm_upstream, a_piece_that_stays_goes_before_others_come_there) {
  auto& vmm = below<upstream::vmm>(here->home, std::size_t{0}, std::uint64_t{0});
  page_source& pages = *vmm.pages();
  std::uint64_t const page = pages.page(), place = pages.claim(4 * page).address;
  std::uint32_t const life = here->epochs.life();
  std::array<std::uint64_t, 3> const three{page, page, page};
  CUresult code = CUDA_SUCCESS;
  ASSERT_EQ(pages.map(place, three, life, code), 3 * page);
  real_unmap = driver::real.cuMemUnmap;
  unmaps = 0;
  driver::real.cuMemUnmap = [](CUdeviceptr address, size_t bytes) {
    ++unmaps;
    if (unmaps == 1) return CUDA_ERROR_INVALID_VALUE;  // not several at once
    return unmaps > 2 && unmaps < 7 ? CUDA_ERROR_UNKNOWN : real_unmap(address, bytes);
  };
  auto const reserved = [] { return stats::get(stats::gauges(0).reserved); };
  std::uint64_t const before = reserved();
  EXPECT_TRUE(pages.unmap(place, 3 * page, life));
  EXPECT_EQ(driver.pages_mapped(), 1u);
  EXPECT_EQ(before - reserved(), 2 * page) << "what is there counts";
  EXPECT_EQ(pages.map(place, three, life, code), 3 * page);
  EXPECT_EQ(driver.pages_mapped(), 3u);
  EXPECT_EQ(reserved(), before);
  EXPECT_TRUE(pages.unmap(place, 3 * page, life));
  driver::real.cuMemUnmap = real_unmap;
  EXPECT_EQ(driver.pages_mapped(), 0u);
}

TEST_F(vmm_upstream, memory_that_the_driver_does_not_free_goes_with_a_later_call) {
  auto& vmm = below<upstream::vmm>(here->home, std::size_t{0}, std::uint64_t{0});
  extent const memory = vmm.reserve({.bytes = 2 * mib});
  std::uint64_t const before = stats::get(stats::gauges(0).reserved);
  driver.fail("cuMemRelease", CUDA_ERROR_UNKNOWN, 4);
  vmm.lost(memory);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), before);
  vmm.trim(give_back_scope::done);
  EXPECT_EQ(before - stats::get(stats::gauges(0).reserved), 2 * mib);
}

}  // namespace
}  // namespace gpumem::resource
