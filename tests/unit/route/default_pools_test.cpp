// Which device's default pool a pool is: each device of many, and without asking for more than there are.
#include "core/route/default_pools.hpp"

#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

constexpr int many = 20;  // more than have figures of their own in the report
int times_asked = 0;

CUmemoryPool pool_of_device(int device) {
  return reinterpret_cast<CUmemoryPool>(0x1000 + static_cast<std::uintptr_t>(device));
}
CUresult many_devices(CUmemoryPool* pool, CUdevice device) {
  ++times_asked;
  if (device >= many) return CUDA_ERROR_INVALID_DEVICE;
  *pool = pool_of_device(device);
  return CUDA_SUCCESS;
}

struct default_pools : route_fixture {
  void SetUp() override {
    route_fixture::SetUp();
    driver::real.cuDeviceGetDefaultMemPool = many_devices;
  }
  void TearDown() override {
    driver::real.cuDeviceGetDefaultMemPool = before_;
    route_fixture::TearDown();
  }

 private:
  decltype(driver::real.cuDeviceGetDefaultMemPool) before_ = driver::real.cuDeviceGetDefaultMemPool;
};

TEST_F(default_pools, are_known_of_each_device) {
  for (int const device : {0, 1, 15, 16, many - 1}) {
    EXPECT_EQ(device_of_default(pool_of_device(device)), device);
    served_pool const found = find_served(pool_of_device(device));
    EXPECT_TRUE(found.is_default && found.device == device) << device;
  }
}

TEST_F(default_pools, a_device_that_is_not_there_is_asked_for_once) {
  EXPECT_EQ(device_of_default(pool_of_device(99)), std::nullopt);
  times_asked = 0;
  EXPECT_EQ(device_of_default(pool_of_device(99)), std::nullopt);
  EXPECT_EQ(find_served(pool_of_device(99)).figures, nullptr);
  EXPECT_EQ(times_asked, 2 * many);
}

}  // namespace
}  // namespace gpumem::route
