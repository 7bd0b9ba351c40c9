// What recommending reads, of reports that anyone may have written and of recordings; the answers themselves
// are in golden.check. And bounds of the answers, at which a figure tips.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "shim/cli/recommend/advice.hpp"
#include "shim/cli/recommend/recorded_use.hpp"
#include "shim/cli/recommend/report_fields.hpp"
#include "tests/unit/recording/memory_file.hpp"

namespace gpumem::cli {
namespace {

constexpr std::uint64_t gib = 1ull << 30;

bool says_yes(program_use const& program, std::string_view question) {
  for (answer const& one : answers_of(program, program.devices.front())) {
    if (one.question == question) return one.yes;
  }
  ADD_FAILURE() << question;
  return false;
}

program_use one_device() {
  program_use use;
  use.devices.emplace_back();
  return use;
}

TEST(recommend, nothing_known_asks_for_nothing) {
  program_use const use = one_device();
  for (answer const& one : answers_of(use, use.devices.front())) EXPECT_FALSE(one.yes) << one.question;
}

TEST(recommend, idle_memory_counts_from_a_quarter_on_where_it_is_a_quarter_of_the_device) {
  program_use use = one_device();
  device_use& device = use.devices.front();
  device.reserved = 8 * gib;
  device.requested = 6 * gib;
  EXPECT_TRUE(says_yes(use, "much of it idle?"));
  device.requested = 6 * gib + gib / 8;
  EXPECT_FALSE(says_yes(use, "much of it idle?"));
  device.requested = 6 * gib;
  device.total = 32 * gib;
  EXPECT_TRUE(says_yes(use, "much of it idle?"));
  device.total = 33 * gib;
  EXPECT_FALSE(says_yes(use, "much of it idle?"));
  device.requested = 9 * gib;  // never more than was reserved, but for a file that someone edited
  EXPECT_FALSE(says_yes(use, "much of it idle?"));
}

TEST(recommend, small_blocks_count_beside_large_ones_where_memory_is_idle) {
  program_use use = one_device();
  use.devices.front().reserved = 8 * gib;
  use.devices.front().requested = 4 * gib;
  use.sized = 1000;
  use.small = 500;
  EXPECT_TRUE(says_yes(use, "many small blocks?"));
  use.small = 499;
  EXPECT_FALSE(says_yes(use, "many small blocks?"));
  use.small = 1000;
  EXPECT_FALSE(says_yes(use, "many small blocks?"));
  use.small = 500;
  use.sized = 999;
  EXPECT_FALSE(says_yes(use, "many small blocks?"));
  use.sized = 1000;
  use.devices.front().requested = 8 * gib;
  EXPECT_FALSE(says_yes(use, "many small blocks?"));
}

TEST(recommend, streams_count_by_waits_or_by_their_number) {
  program_use use = one_device();
  device_use& device = use.devices.front();
  device.at_once = 99'000;
  device.waited = 1000;
  EXPECT_TRUE(says_yes(use, "many streams?"));
  device.waited = 999;
  EXPECT_FALSE(says_yes(use, "many streams?"));
  device.requests = 1000;
  device.streams = 1;
  device.threads = 4;
  EXPECT_TRUE(says_yes(use, "many streams?"));
  device.threads = 3;
  EXPECT_FALSE(says_yes(use, "many streams?"));
  device.streams = 9;
  EXPECT_TRUE(says_yes(use, "many streams?"));
}

TEST(recommend, what_is_known_of_a_part_alone_is_said_of_that_part) {
  program_use use = one_device();
  EXPECT_EQ(recommendation(use, "").find("recorded"), std::string::npos);
  use.is_partial = true;
  for (answer const& one : answers_of(use, use.devices.front()))
    EXPECT_TRUE(one.facts.ends_with(", in the part that is recorded")) << one.facts;
  EXPECT_NE(recommendation(use, "").find("the default chain fits what is recorded:"), std::string::npos);
}

TEST(recommend, a_command_is_shown_where_it_can_be_typed_as_it_is) {
  auto const shown = [](report::document const& argv, int dropped = 0) {
    report::document const from{{"process", {{"argv", argv}}},
                                {"devices", {{{"device", 0}, {"counters", {{"out_of_memory", 1}}}}}},
                                {"truncated", {{"argv_bytes", dropped}}}};
    std::string const text = recommendation(use_of_report(from), "");
    return text.substr(text.find(" -- ") + 4);
  };
  EXPECT_EQ(shown({"python3", "train.py", "--epochs", "3"}), "python3 train.py --epochs 3\n");
  EXPECT_EQ(shown({"python3", "my train.py"}), "PROGRAM\n");
  EXPECT_EQ(shown({"python3", "train.py", ""}), "PROGRAM\n");
  EXPECT_EQ(shown({"python3", "$HOME"}), "PROGRAM\n");
  EXPECT_EQ(shown({"python3", 3}), "PROGRAM\n");
  EXPECT_EQ(shown({"python3", "train.py"}, 1), "PROGRAM\n");
  EXPECT_EQ(shown({"python3", std::string(191, 'x')}), "python3 " + std::string(191, 'x') + "\n");
  EXPECT_EQ(shown({"python3", std::string(192, 'x')}), "PROGRAM\n");
  EXPECT_EQ(shown(report::document::array()), "PROGRAM\n");
}

TEST(recommend, figures_near_the_end_of_the_numbers_do_not_run_over) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  program_use use = one_device();
  device_use& device = use.devices.front();
  for (auto* figure : {&device.number, &device.highest, &device.observed, &device.requests,
                       &device.other_stream_frees, &device.refusals})
    *figure = most;
  device.total = device.reserved = device.at_once = device.waited = device.grown = most;
  device.refused = refusal{most, most, most, 0, "driver"};
  device.holders = {{"/a", most}, {"/b", most}};
  use.sized = use.small = use.bytes = use.small_bytes = most;
  std::string const text = recommendation(use, "");
  EXPECT_NE(text.find("larger than memory?     yes"), text.npos) << text;
  EXPECT_EQ(text.find('-'), text.find("gpumem run -") + 11) << text;  // no figure below 0
}

TEST(recommend, a_report_with_fields_of_wrong_types_reads_as_unknown) {
  for (
      char const* text : {
          "{}",
          "[]",
          "3",
          "null",
          R"({"devices":{}})",
          R"({"devices":[1,null,"x",[]]})",
          R"({"devices":[{"device":"0","at_peak":[],"counters":3,"libraries":{"a":1},"total_bytes":-1}]})",
          R"({"devices":[{"libraries":[3,null,{"at_highest_bytes":"x"}]}],"failures":[1,{"error":"2"},{"error":2}]})",
          R"({"devices":[{}],"sizes":[null,{"up_to_bytes":1e30,"requests":-5}],"process":{"argv":[1,{}]}})",
          R"({"devices":[{}],"intercept":{"hooks":[{"symbol":3},null]},"process":"x","sizes":7})",
      }) {
    std::string const said = recommendation(use_of_report(report::document::parse(text)), "");
    EXPECT_EQ(said.find(" yes "), said.npos) << text << said;
  }
}

TEST(recommend, a_failure_on_no_device_and_one_of_the_host_are_not_the_devices) {
  auto const use = use_of_report(report::document::parse(
      R"({"devices":[{"device":0}],"failures":[{"error":2,"device":7,"requested_bytes":5,"refused_by":"driver"},
          {"error":2,"device":0,"requested_bytes":5,"refused_by":"host_memory"},
          {"error":201,"device":0,"requested_bytes":5,"refused_by":"driver"}]})"));
  EXPECT_EQ(use.devices.front().refusals, 0u);
  EXPECT_FALSE(use.devices.front().refused);
}

class recording_of_use : public testing::Test {
 protected:
  recording_of_use() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~recording_of_use() override { std::filesystem::remove_all(folder_); }

  program_use read(std::vector<recording::event> const& events, std::size_t keep = 0) {
    recording::memory_file out;
    recording::no_names names;
    auto made = std::make_unique<recording::encoder>(out, names, 0);
    for (unsigned ring = 0; ring < 3; ++ring) made->set_owner(static_cast<std::uint8_t>(ring), 100 + ring);
    for (auto const& one : events) made->add(one);
    made->finish(events.back().stamp + 1);
    if (keep != 0) out.bytes.resize(keep);
    out.save(folder_ + "/recording", 0);
    recording::recording_file file;
    EXPECT_EQ(file.open(folder_ + "/recording"), "");
    faults_ = file.faults();
    return use_of_recording(file, faults_);
  }

  std::string folder_ = "/tmp/gpumem_recommend_XXXXXX";
  std::vector<recording::fault> faults_;
};

TEST_F(recording_of_use, figures_are_those_of_the_events) {
  using enum recording::action;
  using recording::key_kind;
  auto const use = read({
      {.stamp = 10, .address = 0x10000, .bytes = 4 << 20, .what = segment_taken, .keys = key_kind::segment},
      {.stamp = 11, .address = 0x10000, .bytes = 1 << 20, .stream = 7, .what = allocate, .library = 1},
      {.stamp = 12, .address = 0x20000, .bytes = 1000, .what = allocate, .library = 1, .ring = 1},
      {.stamp = 13, .address = 0x90000, .bytes = 2 << 20, .what = observed_taken, .keys = key_kind::address},
      {.stamp = 14, .address = 0x10000, .stream = 8, .what = free},
      {.stamp = 15, .bytes = 9 << 20, .number = 2, .what = refused},
      {.stamp = 16, .bytes = 5 << 20, .number = 201, .what = refused},
      {.stamp = 17, .address = 0x90000, .what = observed_given_back, .keys = key_kind::address},
  });
  ASSERT_EQ(use.devices.size(), 1u);
  device_use const& on = use.devices.front();
  EXPECT_EQ(on.highest, (3u << 20) + 1000);
  EXPECT_EQ(on.requested, (1u << 20) + 1000);
  EXPECT_EQ(on.observed, 2u << 20);
  EXPECT_EQ(on.reserved, 4u << 20);
  EXPECT_EQ(on.requests, 2u);
  EXPECT_EQ(on.grown, 1u);
  EXPECT_EQ(on.streams, 2u);
  EXPECT_EQ(on.threads, 2u);
  EXPECT_EQ(on.other_stream_frees, 1u);
  EXPECT_EQ(on.refusals, 1u);
  ASSERT_TRUE(on.refused);
  EXPECT_EQ(on.refused->asked, 9u << 20);
  EXPECT_EQ(on.refused->handed_out, (2u << 20) + 1000);
  ASSERT_EQ(on.holders.size(), 2u);
  EXPECT_EQ(on.holders.front().bytes, 2u << 20);
  EXPECT_EQ(on.holders.back().path, "/lib/libone.so");
  EXPECT_EQ(use.small, 1u);
  EXPECT_EQ(use.sized, 2u);
  EXPECT_TRUE(faults_.empty());
}

TEST_F(recording_of_use, streams_count_however_many_there_are_and_not_beside_one_that_asks_for_nearly_all) {
  using enum recording::action;
  struct {
    std::uint64_t streams, each, first;  // the first stream asks for more
    std::uint64_t counted;
  } const cases[] = {{4, 300, 0, 4},   {20, 60, 0, 20},  {21, 60, 0, 21},   {200, 6, 0, 200},
                     {1, 1200, 0, 1},  {40, 1, 2000, 1}, {400, 1, 2000, 1}, {21, 10, 2000, 1},
                     {4, 50, 2000, 1}, {40, 30, 600, 40}};
  for (auto const& one : cases) {
    std::vector<recording::event> events;
    for (std::uint64_t stream = 1; stream <= one.streams; ++stream) {
      for (std::uint64_t i = 0; i < (stream == 1 ? one.each + one.first : one.each); ++i) {
        std::uint64_t const stamp = events.size() + 1;
        events.push_back(
            {.stamp = stamp, .address = 4096 * stamp, .bytes = 1000, .stream = stream, .what = allocate});
      }
    }
    auto const use = read(events);
    EXPECT_EQ(use.devices.front().streams, one.counted) << one.streams << " of " << one.each;
    EXPECT_EQ(says_yes(use, "many streams?"), one.counted >= 4) << one.streams << " of " << one.each;
    EXPECT_TRUE(answers_of(use, use.devices.front())[4].facts.ends_with("of the requests or more"));
  }
}

TEST_F(recording_of_use, a_recording_that_was_cut_is_read_as_far_as_it_goes) {
  recording::random_events random(3);
  std::vector<recording::event> events;
  for (int i = 0; i < 20'000; ++i) events.push_back(random.next());
  auto const whole = read(events);
  EXPECT_TRUE(faults_.empty());
  auto const part = read(events, 100'000);
  EXPECT_FALSE(faults_.empty());
  EXPECT_LT(part.sized, whole.sized);
  EXPECT_FALSE(recommendation(part, "").empty());
}

}  // namespace
}  // namespace gpumem::cli
