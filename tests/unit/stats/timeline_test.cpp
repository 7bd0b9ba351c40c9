// sample_device and renew_share: the peak is one moment, who may request how much without a look; a full
// timeline halves its resolution and loses neither highs nor levels.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <barrier>
#include <thread>

#include "core/base/clock.hpp"
#include "core/stats/callers/libraries.hpp"
#include "core/stats/page/page_state.hpp"
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

TEST_F(timeline, a_peak_begins_anew_at_what_is_live) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10ull << 30);
    allocate(1 << 30, 1 << 30);
    sample_device(0);
    auto& mine = local().devices[0];
    add(mine.freed_requested, (1 << 30) - 1000);
    EXPECT_EQ(get(gauges(0).highest_since_reset), 1u << 30);
    reset_peak(0);
    EXPECT_EQ(get(gauges(0).highest_since_reset), 1000u);
    EXPECT_EQ(get(gauges(0).highest_requested), 1u << 30) << "of all";
    // The leave to request more without a look is of the new peak, not of the old one.
    allocate(1 << 20, 1 << 20);
    EXPECT_FALSE(must_settle(mine));
    allocate(8 << 20, 8 << 20);
    EXPECT_TRUE(must_settle(mine));
    sample_device(0);
    EXPECT_EQ(get(gauges(0).highest_since_reset), 1000u + (9u << 20));
    EXPECT_EQ(get(gauges(0).highest_requested), 1u << 30);
  });
}

// Left until a thread has to look at the others.
std::uint64_t share_of(device_counters& one) {
  return get(one.settles_at) - (get(one.allocated_requested) - get(one.freed_requested));
}

TEST_F(timeline, shares_go_to_threads_that_request) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10ull << 30);
    std::barrier turn(4);
    std::array<device_counters*, 4> of{};
    of[0] = &local().devices[0];
    allocate(1 << 30, 1 << 30);
    sample_device(0);
    add(of[0]->freed_requested, (1 << 30) - (1 << 20));
    auto const request = [&](int who) {
      of[static_cast<std::size_t>(who)] = &local().devices[0];
      allocate(1 << 20, 1 << 20);
      turn.arrive_and_wait();
      turn.arrive_and_wait();
      if (who == 1) allocate(1 << 20, 1 << 20);
      turn.arrive_and_wait();
      turn.arrive_and_wait();
    };
    std::jthread const one(request, 1), two(request, 2), three(request, 3);
    turn.arrive_and_wait();
    sample_device(0);
    std::uint64_t left = (1ull << 30) + (8ull << 20) - (4ull << 20);
    for (device_counters* each : of) EXPECT_EQ(share_of(*each), left / 4);
    turn.arrive_and_wait();
    turn.arrive_and_wait();
    sample_device(0);  // by thread 0, and thread 1 requested since
    left -= 1 << 20;
    EXPECT_EQ(share_of(*of[0]), (left - left / 8) / 2);
    EXPECT_EQ(share_of(*of[1]), (left - left / 8) / 2);
    EXPECT_EQ(share_of(*of[2]), left / 8 / 2);
    EXPECT_EQ(share_of(*of[3]), left / 8 / 2);
    turn.arrive_and_wait();
  });
}

// Whoever has the lock deals out to all: nobody waits for the lock to look once more.
TEST_F(timeline, a_share_that_another_look_dealt_out_is_enough) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10ull << 30);
    std::barrier turn(2);
    device_counters* mine = nullptr;
    std::jthread waiting([&] {
      mine = &local().devices[0];
      allocate(1 << 20, 1 << 20);
      settle_soon(*mine);
      turn.arrive_and_wait();
      turn.arrive_and_wait();
      renew_share(0);
    });
    turn.arrive_and_wait();
    {
      locked const guard;
      turn.arrive_and_wait();
      set(mine->settles_at, 2 << 20);
      waiting.join();
    }
    EXPECT_EQ(get(gauges(0).highest_requested), 0u) << "nobody looked";
    std::jthread([] {
      allocate(3 << 20, 3 << 20);
      settle_soon(local().devices[0]);
      renew_share(0);
    }).join();
    EXPECT_EQ(get(gauges(0).highest_requested), 4u << 20);
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

// Two libraries, by their places; what each holds when both together hold most, within 1 %.
TEST_F(timeline, who_holds_what_at_the_highest) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 10'000);
    current_page()->fixed.head.library_count = 3;
    auto const counted = [](library_id who, std::uint64_t more, std::uint64_t less) {
      add(local().libraries[place_of(0, who)].allocated, more);
      add(local().libraries[place_of(0, who)].freed, less);
      add(local().devices[0].allocated_requested, more);
      add(local().devices[0].freed_requested, less);
      sample_device(0);
    };
    counted(1, 700, 0);
    counted(2, 300, 0);  // the highest of both
    counted(1, 0, 600);
    counted(2, 200, 0);  // its own highest
    gauge_add(library_gauges_of(0, 1).observed, 40);
    auto const now = take_snapshot();
    auto const& libraries = now.value.devices.at(0).libraries;
    ASSERT_EQ(libraries.size(), 2u);
    EXPECT_EQ(libraries[0].routed, 100u);
    EXPECT_EQ(libraries[0].observed, 40u);
    EXPECT_EQ(libraries[0].highest, 700u);
    EXPECT_EQ(libraries[0].peak_routed, 700u);
    EXPECT_EQ(libraries[1].routed, 500u);
    EXPECT_EQ(libraries[1].highest, 500u);
    EXPECT_EQ(libraries[1].peak_routed, 300u);
  });
}

// Whatever the word of a block says, what is counted lies in the shard.
TEST_F(timeline, no_place_lies_outside_of_the_shard) {
  expect_good_child([] {
    open_test_page();
    shard& mine = local();
    EXPECT_EQ(&holder_at(mine, place_of(3, 5)), &mine.libraries[3 * max_libraries + 5]);
    for (holder_place place : {holder_place{0}, holder_place{511}, holder_place{512}, ~holder_place{0}}) {
      EXPECT_GE(&holder_at(mine, place), std::begin(mine.libraries));
      EXPECT_LT(&holder_at(mine, place), std::end(mine.libraries));
    }
  });
}

// A code address is of the file that holds it, whichever thread asks; code of no file is nobody's.
TEST_F(timeline, code_is_of_its_library) {
  expect_good_child([] {
    EXPECT_EQ(library_of(reinterpret_cast<void const*>(&::malloc)), unknown_library) << "no page yet";
    open_test_page();
    library_id const libc = library_of(reinterpret_cast<void const*>(&::getpid));
    library_id const own = library_of(reinterpret_cast<void const*>(&take_snapshot));
    EXPECT_NE(libc, own);
    EXPECT_EQ(library_of(reinterpret_cast<void const*>(&::getppid)), libc);
    libraries_changed.fetch_add(1);
    look_again_if_changed();
    EXPECT_EQ(library_of(reinterpret_cast<void const*>(&::getpid)), libc) << "the same path again";
    EXPECT_STREQ(std::filesystem::read_symlink("/proc/self/exe").c_str(),
                 current_page()->fixed.libraries[own].path);
    char const generated[64] = {};
    EXPECT_EQ(library_of(generated), unknown_library) << "the stack";
  });
}

// More libraries than places: the last place has them all.
TEST_F(timeline, libraries_without_a_place_share_one) {
  expect_good_child([] {
    open_test_page();
    for (library_id id = 1; id < other_libraries; ++id)
      std::snprintf(current_page()->fixed.libraries[id].path, 20, "/lib/%u.so", id);
    current_page()->fixed.head.library_count = other_libraries;
    EXPECT_EQ(library_of(reinterpret_cast<void const*>(&take_snapshot)), other_libraries);
    EXPECT_EQ(library_of(reinterpret_cast<void const*>(&::getpid)), other_libraries);
    EXPECT_EQ(current_page()->fixed.head.library_count, max_libraries);
  });
}

}  // namespace
}  // namespace gpumem::stats
