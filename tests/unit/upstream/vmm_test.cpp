// Pages of vmm, and a pool of our own: what they are made for, which is what cuMemAlloc's memory is for.
#include "core/upstream/vmm.hpp"

#include <array>
#include <mutex>
#include <set>
#include <thread>

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

// What a peer may touch, by address and bytes of a piece; of a part of one, or of two, the driver refuses it.
std::mutex access_mutex;
std::map<CUdeviceptr, bool> peer_may;
decltype(driver::real.cuMemSetAccess) real_access;

CUresult note_access(CUdeviceptr address, size_t bytes, CUmemAccessDesc const* access, size_t count) {
  CUresult const code = real_access(address, bytes, access, count);
  std::lock_guard const lock(access_mutex);
  tests::fake_driver& fake = tests::fake_driver::instance();
  std::lock_guard const maps(fake.mutex);
  for (size_t i = 0; i < count && code == CUDA_SUCCESS; ++i) {
    if (access[i].location.id != 1) continue;
    for (auto at = fake.mapped.lower_bound(address); at != fake.mapped.end() && at->first < address + bytes;
         ++at)
      peer_may[at->first] = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return code;
}

// A thread maps and unmaps beside pieces that stay, while another gives a peer access, and takes it back.
TEST_F(vmm_upstream, a_peer_has_access_to_what_stays_beside_what_comes_and_goes) {
  driver.manual_events(false);
  std::atomic<std::uint64_t> peers{0};
  chain_context home{.where = here->where,
                     .epochs = here->epochs,
                     .device = 0,
                     .kind = driver::memory_kind::device,
                     .peers = &peers};
  auto& vmm = below<upstream::vmm>(home, std::size_t{0}, std::uint64_t{0});
  page_source& pages = *vmm.pages();
  std::uint64_t const page = pages.page(), most = 32 * page, place = pages.claim(64 * page).address;
  std::uint32_t const life = here->epochs.life();
  real_access = driver::real.cuMemSetAccess;
  driver::real.cuMemSetAccess = note_access;
  peer_may.clear();
  CUresult code = CUDA_SUCCESS;
  ASSERT_EQ(pages.map(place, {&page, 1}, life, code), page);
  std::atomic<bool> stop{false};
  std::jthread other([&] {
    CUresult of_it = CUDA_SUCCESS;
    while (!stop) {
      EXPECT_EQ(pages.map(place + page, {&most, 1}, life, of_it), most);
      EXPECT_TRUE(pages.unmap(place + page, most, life));
    }
  });
  bool right = true;
  for (int round = 0; round < 3000 && right; ++round) {
    peers = round % 2 * 2;  // device 1
    vmm.peers_changed();
    std::lock_guard const lock(access_mutex);
    right = peer_may[place] == (round % 2 != 0);
    EXPECT_TRUE(right) << "round " << round;
  }
  stop = true;
  other.join();
  driver::real.cuMemSetAccess = real_access;
}

}  // namespace
}  // namespace gpumem::resource
