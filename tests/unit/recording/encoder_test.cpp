// Frames and chunks: what is read is what was recorded, each chunk can be replayed alone, and a size limit
// drops the oldest chunks and nothing else.
#include "core/recording/encoder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/recording/reader/recording_file.hpp"
#include "core/recording/reader/replay.hpp"
#include "tests/unit/recording/memory_file.hpp"
#include "tests/unit/seeds.hpp"

namespace gpumem::recording {
namespace {

class encoder_fixture : public testing::Test {
 protected:
  encoder_fixture() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~encoder_fixture() override {
    ::unlink(path_().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path_() const { return folder_ + "/recording"; }

  std::string folder_ = "/tmp/gpumem_encoder_XXXXXX";
};

std::map<unsigned, device_totals> totals_of(random_events const& program) {
  std::map<unsigned, device_totals> result;
  for (auto const& [key, one] : program.live) {
    device_totals& of = result[one.device];
    of.requested += one.keys == key_kind::block ? one.bytes : 0;
    of.rounding += one.rounding;
    of.reserved += one.keys == key_kind::segment ? one.bytes : 0;
    of.observed += one.keys == key_kind::array ? one.bytes : 0;
  }
  return result;
}

void expect_totals(replay const& played, std::map<unsigned, device_totals> const& truth) {
  for (auto [device, totals] : played.devices()) {
    totals.highest_requested = 0;
    auto const found = truth.find(device);
    EXPECT_EQ(totals, found == truth.end() ? device_totals{} : found->second) << device;
  }
}

TEST_F(encoder_fixture, each_chunk_ends_where_the_next_begins) {
  for (std::uint64_t const max_bytes : {std::uint64_t{0}, std::uint64_t{1} << 20, std::uint64_t{3} << 20}) {
    for (unsigned const seed : tests::seeds()) {
      random_events program(seed);
      memory_file to;
      no_names names;
      auto made = std::make_unique<encoder>(to, names, max_bytes);
      std::vector<event> all;
      for (int i = 0; i < 400'000; ++i) {
        all.push_back(program.next());
        made->add(all.back());
        if (i % 5000 == 0) made->commit(program.stamp() + 1);
      }
      made->finish(program.stamp() + 1);
      ASSERT_FALSE(made->failed()) << made->failure();
      to.save(path_(), max_bytes);
      recording_file file;
      ASSERT_EQ(file.open(path_()), "");
      for (auto const& each : file.faults()) ADD_FAILURE() << each.offset << " " << each.text;
      ASSERT_GE(file.chunks().size(), max_bytes == 0 ? 1u : 4u);
      EXPECT_EQ(made->events(), all.size());
      EXPECT_LE(file.bytes(), max_bytes != 0 ? max_bytes : ~std::uint64_t{0});
      std::map<unsigned, device_totals> before;
      for (auto const& chunk : file.chunks()) {
        replay played;
        std::vector<fault> faults;
        std::size_t at = chunk.events_before;
        bool live_seen = false;
        ASSERT_TRUE(file.read_chunk(
            chunk,
            [&](recording_file::item const& each) {
              if (each.what.what == action::thread) return;
              if (!each.is_live) {
                if (!live_seen && !before.empty()) expect_totals(played, before);
                live_seen = true;
                ASSERT_LT(at, all.size());
                EXPECT_EQ(each.what, all[at++]);
              }
              played.apply(each.what);
            },
            faults));
        EXPECT_EQ(played.contradictions(), 0u);
        before = played.devices();
        for (auto& [device, totals] : before) totals.highest_requested = 0;
        if (&chunk == &file.chunks().back()) {
          EXPECT_EQ(at, all.size());
          expect_totals(played, totals_of(program));
        }
      }
    }
  }
}

// Chunks are of different sizes where what is live grows and shrinks: what goes is the oldest part, at each
// moment the newest chunk and the one before it are there, and none that was overwritten is missed.
TEST_F(encoder_fixture, a_limit_keeps_the_newest_whatever_is_live) {
  constexpr std::uint64_t limit = 1 << 20;
  for (unsigned const seed : tests::seeds()) {
    std::mt19937 random(seed);
    memory_file to;
    no_names names;
    auto made = std::make_unique<encoder>(to, names, limit);
    std::vector<std::uint64_t> live;
    std::uint64_t stamp = 0, next = 1;
    for (int step = 0; step < 300; ++step) {
      std::size_t const wanted = step % 20 == 0 ? random() % 4500 : live.size();
      for (int i = 0; i < 2000; ++i) {
        bool const gives = live.size() > wanted || (live.size() == wanted && !live.empty() && i % 2 == 0);
        if (gives) {
          std::swap(live[random() % live.size()], live.back());
          made->add({.stamp = ++stamp, .address = live.back(), .what = action::free});
          live.pop_back();
        } else {
          live.push_back(next++ * 512 + (random() % 4096 << 30));
          made->add({.stamp = ++stamp, .address = live.back(), .bytes = random(), .what = action::allocate});
        }
      }
      made->commit(stamp + 1);
      ASSERT_FALSE(made->failed()) << made->failure();
      to.save(path_(), limit, end_state::open);
      recording_file file;
      ASSERT_EQ(file.open(path_()), "");
      for (auto const& each : file.faults()) ADD_FAILURE() << step << ": " << each.offset << " " << each.text;
      ASSERT_FALSE(file.chunks().empty());
      ASSERT_GE(file.chunks().size(), std::min<std::uint64_t>(2, file.chunks().back().number)) << step;
      EXPECT_LE(file.bytes(), limit);
      ASSERT_FALSE(HasFailure()) << "seed " << seed;
    }
  }
}

TEST_F(encoder_fixture, names_are_in_the_chunk) {
  memory_file to;
  no_names names;
  encoder made(to, names, 0);
  made.add({.stamp = 1, .number = 4711, .what = action::thread, .ring = 2});
  made.add(
      {.stamp = 2, .address = 512, .bytes = 7, .site = 5, .what = action::allocate, .library = 1, .ring = 2});
  made.finish(3);
  to.save(path_(), 0);
  recording_file file;
  ASSERT_EQ(file.open(path_()), "");
  int seen = 0;
  std::vector<fault> faults;
  EXPECT_TRUE(file.read(
      [&](recording_file::item const& each) {
        if (each.what.what != action::allocate) return;
        ++seen;
        EXPECT_EQ(each.known.threads.at(2), 4711u);
        EXPECT_EQ(each.known.libraries.at(1), "/lib/libone.so");
        auto const& frames = each.known.sites.at(5);
        ASSERT_EQ(frames.size(), 2u);
        EXPECT_EQ(each.known.modules.at(frames[0].module), "/bin/program");
        EXPECT_EQ(frames[0].offset, 0x1234u);
        EXPECT_EQ(frames[1].module, 0u);
        EXPECT_EQ(frames[1].offset, 0x9999u);
      },
      faults));
  EXPECT_EQ(seen, 1);
}

TEST_F(encoder_fixture, a_limit_that_is_too_small_for_what_is_live_is_said) {
  memory_file to;
  no_names names;
  encoder made(to, names, 1 << 20);
  for (std::uint64_t i = 1; i < 200'000; ++i)
    made.add({.stamp = i, .address = i * 512, .bytes = 7, .what = action::allocate});
  made.finish(200'000);
  ASSERT_TRUE(made.failed());
  EXPECT_NE(std::string(made.failure()).find("max_size"), std::string::npos);
}

class phase_names final : public name_source {
 public:
  char const* library(unsigned) noexcept override { return nullptr; }
  std::size_t site(unsigned, std::uint64_t (&)[most_frames]) noexcept override { return 0; }
  bool module(std::uint64_t, module_name&) noexcept override { return false; }
  char const* phase(unsigned number) noexcept override { return number == 7 ? "train" : "step N"; }
};

// Each chunk begins with the phases that are open, and knows their names.
TEST_F(encoder_fixture, open_phases_are_live) {
  random_events program(1);
  memory_file to;
  phase_names names;
  auto made = std::make_unique<encoder>(to, names, std::uint64_t{1} << 20);
  auto const phase = [&](action what, std::uint64_t serial, std::uint32_t number) {
    made->add({.stamp = program.stamp(),
               .address = serial,
               .number = number,
               .what = what,
               .keys = key_kind::phase});
  };
  program.next();
  phase(action::phase_begins, 1, 7);
  for (std::uint64_t serial = 2; serial < 40'002; ++serial) {
    phase(action::phase_begins, serial, 300);
    made->add(program.next());
    phase(action::phase_ends, serial, 0);
  }
  made->finish(program.stamp() + 1);
  to.save(path_(), std::uint64_t{1} << 20);
  recording_file file;
  ASSERT_EQ(file.open(path_()), "");
  ASSERT_GE(file.chunks().size(), 4u);
  for (auto const& chunk : file.chunks()) {
    std::map<std::uint64_t, std::string> open;
    replay played;
    std::vector<fault> faults;
    ASSERT_TRUE(file.read_chunk(
        chunk,
        [&](recording_file::item const& each) {
          played.apply(each.what);
          if (each.is_live && each.what.what == action::phase_begins)
            open[each.what.address] = each.known.phases.at(each.what.number);
        },
        faults));
    EXPECT_EQ(open[1], "train") << chunk.number;
    EXPECT_LE(open.size(), 2u);
    EXPECT_EQ(played.contradictions(), 0u);
    EXPECT_NE(played.live().find(key_kind::phase, 1), nullptr);
    EXPECT_LE(played.devices().size(), 2u) << "a phase holds no memory";
  }
}

}  // namespace
}  // namespace gpumem::recording
