// The upstream `system` over a host of a set size: when it is built, what it refuses, where its pages are
// told to be, and when they go back.
#include "core/upstream/host/system.hpp"

#include <string>
#include <utility>

#include "tests/unit/fake_driver/fake_host.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct advice {
  std::uint64_t address;  // in `given`; a test compares offsets
  std::uint64_t bytes;
  int device;
  bool operator==(advice const&) const = default;
};
std::vector<advice> given;
CUresult answer = CUDA_SUCCESS;

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUmemLocation where) {
  EXPECT_EQ(what, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
  int const device = where.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : where.id;
  given.push_back({address, bytes, device});
  return answer;
}

struct system_memory : resource_fixture {
  tests::fake_host& host = tests::fake_host::instance();
  void SetUp() override {
    resource_fixture::SetUp();
    driver.manual_events(false);
    driver::real.cuMemAdvise_v2 = advise;
    given.clear();
    answer = CUDA_SUCCESS;
  }
  upstream::system& make_system(std::uint64_t headroom = 0) {
    return below<upstream::system>(here->home, std::size_t{0}, headroom, host);
  }
  static std::vector<advice> advice_from(std::uint64_t base) {
    std::vector<advice> all = given;
    for (advice& a : all) a.address -= base;
    return all;
  }
  static CUresult refusal_of(source& from, std::uint64_t bytes, std::string& text) try {
    from.reserve({.bytes = bytes});
    return CUDA_SUCCESS;
  } catch (driver::allocation_failed const& failed) {
    EXPECT_EQ(failed.kind(), driver::refused_by::host_memory);
    text = failed.what();
    return failed.code();
  }
};

TEST_F(system_memory, needs_a_device_that_reaches_it) {
  driver.attributes[CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS] = 0;
  try {
    make_system();
    FAIL() << "it was built";
  } catch (driver::allocation_failed const& failed) {
    EXPECT_EQ(failed.code(), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_NE(std::string(failed.what()).find("does not reach pageable memory"), std::string::npos);
    EXPECT_NE(std::string(failed.what()).find("use managed"), std::string::npos);
  }
}

TEST_F(system_memory, small_requests_take_pages_and_large_ones_large_pages) {
  upstream::system& s = make_system();
  extent const small = s.reserve({.bytes = 512});
  EXPECT_EQ(small.bytes, upstream::host_memory::page());
  EXPECT_EQ(host.last_alignment, upstream::host_memory::page());
  extent const large = s.reserve({.bytes = 5 * mib});
  EXPECT_EQ(large.bytes, 6 * mib);
  EXPECT_EQ(host.last_alignment, 2 * mib);
  s.release(large, {});
  s.release(small, {});
  EXPECT_EQ(driver.used(), 0u);
}

TEST_F(system_memory, what_the_host_has_not_available_is_refused_with_its_figures) {
  driver.set_capacity(100 * mib);
  upstream::system& s = make_system();
  extent const held = s.reserve({.bytes = 60 * mib});
  std::string text;
  EXPECT_EQ(refusal_of(s, 50 * mib, text), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(
      text.find("50.00 MiB asked for, the host has 40.00 MiB available of 100.00 MiB, 60.00 MiB are held"),
      std::string::npos)
      << text;
  extent const rest = s.reserve({.bytes = 40 * mib});
  s.release(rest, {});
  s.release(held, {});
  s.release(s.reserve({.bytes = 100 * mib}), {});
}

// Pages that nobody touched are still available to the kernel.
TEST_F(system_memory, never_holds_more_than_the_host_has) {
  struct untouched final : upstream::host_memory {
    std::uint64_t next = 1ull << 40;
    amount measure() noexcept override { return {100 * mib, 100 * mib}; }
    std::uint64_t map(std::uint64_t bytes, std::uint64_t) noexcept override {
      return std::exchange(next, next + bytes);
    }
    void unmap(std::uint64_t, std::uint64_t) noexcept override {}
  };
  static untouched endless;
  auto& s = below<upstream::system>(here->home, std::size_t{0}, std::uint64_t{0}, endless);
  std::vector<extent> live;
  std::string text;
  for (int i = 0; i < 10; ++i) live.push_back(s.reserve({.bytes = 10 * mib}));
  EXPECT_EQ(refusal_of(s, 10 * mib, text), CUDA_ERROR_OUT_OF_MEMORY);
  s.release(live.back(), {});
  live.back() = s.reserve({.bytes = 10 * mib});
  for (extent const& memory : live) s.release(memory, {});
}

TEST_F(system_memory, without_headroom_the_driver_places_it) {
  make_system().reserve({.bytes = 4 * mib});
  EXPECT_TRUE(given.empty());
}

TEST_F(system_memory, what_fits_beside_the_headroom_is_for_the_device) {
  driver.set_capacity(64 * mib);  // the fake host takes its memory from the same, before the advice
  upstream::system& s = make_system(20 * mib);
  extent const first = s.reserve({.bytes = 16 * mib});
  EXPECT_EQ(advice_from(first.address), (std::vector<advice>{{0, 16 * mib, 0}}));
  given.clear();
  extent const second = s.reserve({.bytes = 24 * mib});  // leaves 24 free
  EXPECT_EQ(advice_from(second.address),
            (std::vector<advice>{{0, 4 * mib, 0}, {4 * mib, 20 * mib, CU_DEVICE_CPU}}));
  given.clear();
  extent const third = s.reserve({.bytes = 6 * mib});  // leaves less than the headroom
  EXPECT_EQ(advice_from(third.address), (std::vector<advice>{{0, 6 * mib, CU_DEVICE_CPU}}));
}

TEST_F(system_memory, is_served_without_advice_that_is_refused) {
  answer = CUDA_ERROR_INVALID_VALUE;
  upstream::system& s = make_system(mib);
  testing::internal::CaptureStderr();
  s.reserve({.bytes = 4 * mib});
  s.reserve({.bytes = 4 * mib});
  std::string const said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("refuses the advice of headroom (code 1)"), std::string::npos) << said;
  EXPECT_EQ(said.find("advice"), said.rfind("advice")) << "said twice: " << said;
}

// The kernel takes pages at once, whatever the device does with them.
TEST_F(system_memory, goes_back_after_the_work_and_not_while_a_stream_captures) {
  upstream::system& s = make_system();
  extent const first = s.reserve({.bytes = mib});
  int const waits = driver.calls("cuEventSynchronize");
  s.release(first, {});
  EXPECT_EQ(driver.calls("cuEventSynchronize"), waits + 1);
  EXPECT_EQ(driver.used(), 0u);
  extent const second = s.reserve({.bytes = mib});
  driver.capture(tests::stream(1));
  here->epochs.capture_begins({tests::stream(1)});
  s.release(second, {});
  EXPECT_EQ(driver.used(), mib);
  EXPECT_EQ(s.trim(gpumem::resource::give_back_scope::all), 0u);
  driver.end_capture(tests::stream(1));
  here->epochs.capture_ended(tests::stream(1));
  EXPECT_EQ(s.trim(gpumem::resource::give_back_scope::all), mib);
  EXPECT_EQ(driver.used(), 0u);
}

TEST_F(system_memory, what_was_freed_on_a_stream_is_pending_until_the_program_synchronises) {
  driver.manual_events(true);
  chain whole;
  auto& s = static_cast<upstream::system&>(whole.add_source(
      std::make_unique<upstream::system>(here->home, std::size_t{0}, std::uint64_t{0}, host)));
  extent const early = s.reserve({.bytes = mib});
  s.release(early, {.stream = tests::stream(1), .may_wait = false});
  EXPECT_EQ(whole.measure().pending, mib);
  stream_order::epoch_id const mark = here->epochs.synchronize_begins();
  extent const late = s.reserve({.bytes = 2 * mib});
  s.release(late, {.stream = tests::stream(1), .may_wait = false});
  EXPECT_EQ(whole.measure().pending, 3 * mib);
  EXPECT_EQ(driver.used(), 3 * mib);
  here->epochs.synchronize_done(mark);
  EXPECT_EQ(whole.measure().pending, 2 * mib) << "the work of the first is known to be done";
  int const before = driver.calls_in_all();
  whole.synchronized();
  EXPECT_EQ(driver.calls_in_all(), before) << "the driver was asked what is known";
  EXPECT_EQ(driver.used(), 2 * mib);
  here->epochs.synchronize_done(here->epochs.synchronize_begins());
  whole.synchronized();
  EXPECT_EQ(driver.used(), 0u);
  EXPECT_EQ(whole.measure().pending, 0u);
}

TEST(host_memory, of_this_machine_is_aligned_and_goes_back) {
  auto& host = upstream::host_memory::of_this_machine();
  auto const has = host.measure();
  EXPECT_GT(has.total, 256 * mib);
  EXPECT_LT(has.total, ~std::uint64_t{0});
  EXPECT_LE(has.available, has.total);
  EXPECT_EQ(host.map(~std::uint64_t{0} - 2 * mib + 1, 2 * mib), 0u);
  for (int i = 0; i < 3; ++i) {
    std::uint64_t const small = host.map(host.page(), host.page());
    std::uint64_t const address = host.map(4 * mib, 2 * mib);
    ASSERT_NE(address, 0u);
    EXPECT_EQ(address % (2 * mib), 0u);
    auto* const bytes = reinterpret_cast<unsigned char*>(address);
    EXPECT_EQ(bytes[0] | bytes[4 * mib - 1], 0);
    bytes[0] = bytes[4 * mib - 1] = 7;
    host.unmap(address, 4 * mib);
    host.unmap(small, host.page());
  }
}

}  // namespace
}  // namespace gpumem::resource
