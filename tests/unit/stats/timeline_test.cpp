// sample_device: the peak is one moment, and a full timeline halves its resolution and loses neither highs
// nor levels.
#include <sys/mman.h>

#include "core/base/clock.hpp"
#include "tests/unit/stats/page_fixture.hpp"

namespace gpumem::stats {
namespace {

using timeline = page_fixture;

void allocate(std::uint64_t requested, std::uint64_t handed) {
  add(local().devices[0].allocated_requested, requested);
  add(local().devices[0].allocated_handed, handed);
}

TEST_F(timeline, the_peak_is_measured_at_one_moment) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10'000);
    allocate(1000, 1024);
    set(gauges(0).used, 6000);
    set(gauges(0).used_known, 4096);
    set(gauges(0).reserved, 4096);
    set(gauges(0).pending, 512);
    sample_device(0);
    set(gauges(0).reserved, 100);
    allocate(2000, 2048);  // more requested, but reserved is lower: not the peak
    sample_device(0);
    auto const now = take_snapshot();
    auto const& device = now.value.devices.at(0);
    EXPECT_EQ(device.peak.requested, 1000u);
    EXPECT_EQ(device.peak.rounding, 24u);
    EXPECT_EQ(device.peak.pending, 512u);
    EXPECT_EQ(device.peak.reserved, 4096u);
    EXPECT_EQ(device.peak.in_use, 6000u);
    EXPECT_EQ(device.gauges.highest_requested, 3000u);
  });
}

TEST_F(timeline, a_long_run_fits) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10'000);
    // Time is moved by moving the start of the page back: 5000 samples over 200 s.
    std::uint64_t const began = base::now_ns();
    for (std::uint64_t i = 0; i < 5000; ++i) {
      current_page()->fixed.head.opened_mono_ns = began - i * 40'000'000;
      set(gauges(0).reserved, i == 1234 ? 999'999 : i);
      sample_device(0);
    }
    auto const now = take_snapshot();
    auto const& device = now.value.devices.at(0);
    ASSERT_LE(device.timeline.size(), timeline_samples);
    ASSERT_GE(device.timeline.size(), timeline_samples / 4);
    std::uint64_t highest = 0, last_time = 0;
    for (auto const& sample : device.timeline) {
      highest = std::max(highest, sample.reserved_high);
      EXPECT_GE(sample.reserved_high, sample.reserved_last);
      EXPECT_TRUE(last_time == 0 || sample.t_ns > last_time);
      last_time = sample.t_ns;
    }
    EXPECT_EQ(highest, 999'999u);
    EXPECT_EQ(device.timeline.back().reserved_last, 4999u);
    EXPECT_GT(device.timeline.back().t_ns, 190'000'000'000u);
  });
}

}  // namespace
}  // namespace gpumem::stats
