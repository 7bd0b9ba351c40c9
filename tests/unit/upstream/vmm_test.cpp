// Pages of vmm, and a pool of our own: what they are made for, which is what cuMemAlloc's memory is for.
#include "core/upstream/vmm.hpp"

#include "core/upstream/cuda_async.hpp"
#include "core/upstream/decompression.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

constexpr auto algorithms = static_cast<CUdevice_attribute>(136);  // MEM_DECOMPRESS_ALGORITHM_MASK

unsigned short usage_of_pages, usage_of_pool;
decltype(driver::real.cuMemCreate) real_create;
decltype(driver::real.cuMemPoolCreate) real_pool;

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

}  // namespace
}  // namespace gpumem::resource
