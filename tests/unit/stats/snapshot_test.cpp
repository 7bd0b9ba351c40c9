// Reading pages that are damaged: an error or a snapshot, never a crash; and pages with other counters than
// ours.
#include "core/stats/snapshot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "core/stats/page/in_use.hpp"
#include "core/stats/page/page_state.hpp"
#include "tests/unit/stats/page_fixture.hpp"

namespace gpumem::stats {
namespace {

class snapshot_test : public page_fixture {
 protected:
  // A small but full page on disk.
  std::string write_page() {
    in_child([] {
      open_test_page();
      for (int i = 0; i < 100; ++i) {
        add(local().hooks[0].calls, 1);
        add(local().devices[0].allocated_requested, 100);
        add(local().devices[0].allocated_handed, 512);
        add(local().nodes[0].requests, 1);
        add(local().sizes[bucket_of(100)].count, 1);
      }
      register_device(0, "H100", "GPU-0", 1 << 20);
      register_node("pool", "pool", 0, 0, "device", "");
      gauge_add(gauges(0).reserved, 1 << 19);
      for (int i = 0; i < 3; ++i) sample_device(0);
      note_failure({.bytes = 1, .code = 2, .reason = "no room"});
      close_page({.kind = end_kind::exit, .clean = 1});
    });
    EXPECT_EQ(files().size(), 1u);
    return files().front();
  }

  static void poke(std::string const& path, std::size_t offset, void const* bytes, std::size_t count) {
    int const descriptor = ::open(path.c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(descriptor, bytes, count, static_cast<off_t>(offset)), static_cast<ssize_t>(count));
    ::close(descriptor);
  }
  template <typename value>
  static void poke_value(std::string const& path, std::size_t offset, value what) {
    poke(path, offset, &what, sizeof what);
  }
};

TEST_F(snapshot_test, a_good_page) {
  auto const result = read_snapshot(write_page());
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.value.devices.at(0).now.requested, 10'000u);
  EXPECT_EQ(result.value.devices.at(0).now.rounding, 51'200u - 10'000);
  EXPECT_EQ(result.value.devices.at(0).timeline.size(), 1u);
  EXPECT_EQ(result.value.nodes.at(0).counters.requests, 100u);
  EXPECT_EQ(result.value.sizes[7].count, 100u);
  EXPECT_EQ(result.value.failures.at(0).reason, "no room");
}

TEST_F(snapshot_test, wrong_files_get_a_clear_error) {
  EXPECT_NE(read_snapshot(folder_ + "/absent").error.find("No such file"), std::string::npos);
  EXPECT_NE(read_snapshot(folder_).error.find("not a file"), std::string::npos);
  std::ofstream(folder_ + "/text") << "hello";
  EXPECT_NE(read_snapshot(folder_ + "/text").error.find("too short"), std::string::npos);
  std::ofstream(folder_ + "/long") << std::string(1 << 20, 'x');
  EXPECT_NE(read_snapshot(folder_ + "/long").error.find("no state page of gpumem"), std::string::npos);
}

TEST_F(snapshot_test, another_layout_names_both_versions) {
  std::string const path = write_page();
  poke_value(path, offsetof(page_header, version), std::uint32_t{77});
  auto const error = read_snapshot(path).error;
  EXPECT_NE(error.find("version 77"), std::string::npos) << error;
  EXPECT_NE(error.find("reads version " + std::to_string(layout_version)), std::string::npos) << error;
}

TEST_F(snapshot_test, counters_are_found_by_name) {
  std::string const path = write_page();
  auto const before = read_snapshot(path);
  // Another version calls the first counter otherwise, and this one's name comes second.
  field_name first{"a_counter_of_the_future"}, second{"calls"};
  poke(path, offsetof(page_header, hook_names), &first, sizeof first);
  poke(path, offsetof(page_header, hook_names) + sizeof first, &second, sizeof second);
  poke_value(path, offsetof(page, shards) + offsetof(shard, hooks) + 8, std::uint64_t{4711});
  auto const after = read_snapshot(path);
  ASSERT_EQ(after.error, "");
  EXPECT_EQ(before.value.hooks.at(0).counters.calls, 100u);
  EXPECT_EQ(after.value.hooks.at(0).counters.calls, 4711u);
  EXPECT_EQ(after.value.hooks.at(0).counters.bytes, 0u);
}

// What the driver says is in use, and the peak, are several words each: nobody sees half of a change, however
// long it takes the thread that makes it.
TEST_F(snapshot_test, figures_of_one_moment_are_read_as_of_one_moment) {
  expect_good_child([this] {
    static constexpr auto pause = std::chrono::microseconds(300);
    open_test_page();
    register_device(0, "H100", "GPU-0", 1ull << 40);
    std::jthread const writer([](std::stop_token const& ends) {
      for (std::uint64_t round = 1; !ends.stop_requested(); ++round) {
        {
          locked const guard;
          gauge_change const together(gauges(0));
          set(gauges(0).used_known, round);
          std::this_thread::sleep_for(pause);
          set(gauges(0).used, round);
        }
        std::this_thread::sleep_for(pause);
      }
    });
    std::string const path = files().front();
    std::uint64_t last = 0;
    int moments = 0;
    for (int i = 0; i < 20'000 && moments < 40; ++i) {
      for (auto const& seen : {read_snapshot(path), take_snapshot()}) {
        ASSERT_EQ(seen.error, "");
        device_gauges const& now = seen.value.devices.at(0).gauges;
        ASSERT_EQ(now.used, now.used_known);
        moments += now.used != last ? 1 : 0;
        last = now.used;
      }
    }
    EXPECT_GE(moments, 40) << "nothing changed meanwhile";
  });
}

TEST_F(snapshot_test, all_that_changes_such_figures_says_so) {
  expect_good_child([] {
    open_test_page();
    register_device(0, "H100", "GPU-0", 1ull << 40);
    auto& number = gauges(0).changes;
    in_use_question(0).answered(7);
    EXPECT_EQ(get(number), 2u);
    note_first_unseen(0);
    EXPECT_EQ(get(number), 4u);
    set(gauges(0).reserved, 512);
    sample_device(0);
    EXPECT_EQ(get(gauges(0).peak_reserved), 512u);
    EXPECT_EQ(get(number), 6u);
    sample_device(0);
    EXPECT_EQ(get(number), 6u) << "no higher peak";
  });
}

// Killed in the middle of such a change.
TEST_F(snapshot_test, a_change_that_never_ends_is_not_waited_for) {
  std::string const path = write_page();
  poke_value(path, offsetof(fixed_part, gauges) + offsetof(device_gauges, changes), std::uint64_t{7});
  auto const found = read_snapshot(path);
  ASSERT_EQ(found.error, "");
  EXPECT_EQ(found.value.devices.at(0).gauges.changes, 7u);
  EXPECT_EQ(found.value.devices.at(0).now.requested, 10'000u);
}

TEST_F(snapshot_test, truncated_at_any_place) {
  std::string const path = write_page();
  std::size_t const end = offsetof(page, shards) + sizeof(shard_slot);
  for (std::size_t length = end; length != 0; length = length * 9 / 10) {
    ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(length)), 0);
    auto const result = read_snapshot(path);
    if (length < end - sizeof(shard_slot)) {
      EXPECT_NE(result.error, "") << length;
    }
  }
}

TEST_F(snapshot_test, mutations_never_crash_the_reader) {
  std::string const path = write_page();
  std::mt19937_64 random(42);
  std::size_t errors = 0;
  constexpr std::size_t ranges[][2] = {
      {0, offsetof(page_header, hook_names)},
      {offsetof(page_header, hook_names), offsetof(page_header, config_text)},
      {offsetof(page_header, hook_count), sizeof(page_header)},
      {offsetof(fixed_part, devices), sizeof(fixed_part)}};
  auto original = std::make_unique<fixed_part>();
  {
    std::ifstream in(path, std::ios::binary);
    in.read(reinterpret_cast<char*>(original.get()), sizeof(fixed_part));
  }
  for (int round = 0; round < 1500; ++round) {
    for (int hit = 0; hit < 4; ++hit) {
      auto const& range = ranges[random() % std::size(ranges)];
      std::size_t const at = (range[0] + random() % (range[1] - range[0])) / 4 * 4;
      std::uint32_t const values[] = {0,    1,          0xffffffffu, static_cast<std::uint32_t>(random()),
                                      4095, 0x7fffffffu};
      poke_value(path, at, values[random() % std::size(values)]);
    }
    if (!read_snapshot(path).error.empty()) ++errors;
    if (round % 2 == 1) poke(path, 0, original.get(), sizeof(fixed_part));
  }
  EXPECT_GT(errors, 100u);  // the mutations do hit something
  poke(path, 0, original.get(), sizeof(fixed_part));
  EXPECT_EQ(read_snapshot(path).error, "");
}

}  // namespace
}  // namespace gpumem::stats
