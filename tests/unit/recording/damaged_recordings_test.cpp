// Recordings that were cut, or have bad bytes: never a crash, a fault with its offset where something is
// wrong, and whatever is read was recorded.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "core/recording/reader/recording_file.hpp"
#include "core/recording/reader/replay.hpp"
#include "tests/unit/recording/memory_file.hpp"
#include "tests/unit/seeds.hpp"

namespace gpumem::recording {
namespace {

class damaged_recordings : public testing::Test {
 protected:
  damaged_recordings() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~damaged_recordings() override {
    ::unlink(path_().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path_() const { return folder_ + "/recording"; }
  void make(std::uint64_t max_bytes, unsigned seed) {
    random_events program(seed);
    no_names names;
    encoder made(good_, names, max_bytes);
    for (int i = 0; i < 20'000; ++i) {
      event const one = program.next();
      stamps_.insert(one.stamp);
      made.add(one);
      if (i % 1000 == 0) made.commit(program.stamp() + 1);
    }
    made.finish(program.stamp() + 1);
    good_.save(path_(), max_bytes);
  }
  void save(std::vector<unsigned char> const& bytes) const {
    std::ofstream(path_(), std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<char const*>(bytes.data()), static_cast<long>(bytes.size()));
  }
  struct seen {
    std::string error;
    std::size_t events = 0, faults = 0;
  };
  seen read() const {
    seen result;
    recording_file file;
    result.error = file.open(path_());
    if (!result.error.empty()) return result;
    std::vector<fault> faults;
    file.read(
        [&](recording_file::item const& each) {
          if (each.what.what == action::thread || each.is_live) return;
          ++result.events;
          EXPECT_TRUE(stamps_.contains(each.what.stamp));
        },
        faults);
    result.faults = faults.size() + file.faults().size();
    for (auto const& each : file.faults()) EXPECT_LE(each.offset, file.bytes());
    return result;
  }

  memory_file good_;
  std::set<std::uint64_t> stamps_;
  std::string folder_ = "/tmp/gpumem_damaged_XXXXXX";
};

TEST_F(damaged_recordings, cut_anywhere) {
  make(0, 1);
  std::size_t const all = read().events;
  EXPECT_EQ(all, 20'000u);
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    auto bytes = good_.bytes;
    bytes.resize(random() % bytes.size());
    save(bytes);
    seen const now = read();
    EXPECT_TRUE(!now.error.empty() || now.faults != 0) << bytes.size();
    EXPECT_LT(now.events, all);
  }
}

// Killed, or read while it is written, between two frames: also among those of what was live, of which a
// chunk has several. Each chunk that is told begins with what the one before ended with.
TEST_F(damaged_recordings, cut_between_frames_while_it_is_written) {
  constexpr std::uint64_t limit = 8 << 20;
  no_names names;
  encoder made(good_, names, limit);
  std::uint64_t stamp = 1;
  for (; stamp <= 25'000; ++stamp)
    made.add({.stamp = stamp, .address = stamp * 512, .bytes = stamp, .what = action::allocate});
  for (; stamp < 200'000; stamp += 2) {
    made.add({.stamp = stamp, .address = (stamp % 20'000 + 1) * 512, .what = action::free});
    made.add({.stamp = stamp + 1,
              .address = (stamp % 20'000 + 1) * 512,
              .bytes = stamp,
              .what = action::allocate});
  }
  made.commit(stamp);
  std::vector<std::uint64_t> ends;
  frame_head head{};
  for (std::uint64_t at = file_page; at + sizeof head <= good_.bytes.size();) {
    std::memcpy(&head, good_.bytes.data() + at, sizeof head);
    if (head.magic != frame_magic) break;
    ends.push_back(at + head.bytes);
    at = (head.flags & last_of_chunk) != 0 ? (ends.back() + file_page - 1) / file_page * file_page
                                           : ends.back();
  }
  ASSERT_GT(ends.size(), 10u);
  good_.save(path_(), limit, end_state::open);
  for (std::uint64_t const end : ends) {
    auto bytes = good_.bytes;
    bytes.resize(end);
    save(bytes);
    recording_file file;
    ASSERT_EQ(file.open(path_()), "");
    EXPECT_TRUE(file.faults().empty());
    std::uint64_t before = 0;
    for (auto const& chunk : file.chunks()) {
      replay played;
      std::vector<fault> faults;
      auto const held = [&] { return played.devices().empty() ? 0 : played.devices().at(0).requested; };
      bool begun = false;
      auto const begin = [&] {
        bool const checks = !begun && before != 0;
        begun = true;
        if (checks) {
          EXPECT_EQ(held(), before) << end;
        }
      };
      file.read_chunk(
          chunk,
          [&](recording_file::item const& each) {
            if (!each.is_live) begin();
            played.apply(each.what);
          },
          faults);
      begin();
      before = held();
    }
  }
}

TEST_F(damaged_recordings, bad_bytes_anywhere) {
  for (unsigned const seed : tests::seeds()) {
    for (std::uint64_t const max_bytes : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
      stamps_.clear();
      good_ = memory_file();
      make(max_bytes, seed);
      std::size_t const all = read().events;
      std::mt19937 random(seed);
      for (int i = 0; i < 40; ++i) {
        auto bytes = good_.bytes;
        for (std::size_t count = 1 + random() % 8; count != 0; --count) {
          std::size_t const at = random() % 4 == 0 ? random() % 200 : random() % bytes.size();
          bytes[at] = static_cast<unsigned char>(random());
        }
        save(bytes);
        EXPECT_LE(read().events, all);
      }
    }
  }
}

// Of frames whose checksum is right: the decoder believes nothing either.
TEST_F(damaged_recordings, bad_events_in_a_good_frame) {
  make(0, 3);
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    auto bytes = good_.bytes;
    frame_head head{};
    std::uint64_t at = file_page;
    std::vector<std::uint64_t> frames;
    while (at + sizeof head <= bytes.size()) {
      std::memcpy(&head, bytes.data() + at, sizeof head);
      if (head.magic != frame_magic) break;
      frames.push_back(at);
      at += head.bytes;
    }
    at = frames[random() % frames.size()];
    std::memcpy(&head, bytes.data() + at, sizeof head);
    if (head.bytes == sizeof head) continue;
    for (std::size_t count = 1 + random() % 8; count != 0; --count)
      bytes[at + sizeof head + random() % (head.bytes - sizeof head)] = static_cast<unsigned char>(random());
    std::uint64_t const sum =
        checksum_of({bytes.data() + at + behind_checksum, head.bytes - behind_checksum});
    std::memcpy(bytes.data() + at + offsetof(frame_head, checksum), &sum, sizeof sum);
    save(bytes);
    recording_file file;
    ASSERT_EQ(file.open(path_()), "");
    std::vector<fault> faults;
    bool const whole = file.read([](auto const&) {}, faults);
    EXPECT_EQ(whole, faults.empty());
  }
}

// Of a file of 8 TiB that holds next to nothing: what holds nothing is not looked at.
#ifdef GPUMEM_UNDER_TSAN
constexpr off_t sparse_bytes = off_t{1} << 36;  // its own tables leave no room for more
#else
constexpr off_t sparse_bytes = off_t{1} << 43;
#endif
TEST_F(damaged_recordings, a_sparse_file) {
  make(0, 1);
  ASSERT_EQ(::truncate(path_().c_str(), sparse_bytes), 0);
  seen const now = read();
  EXPECT_EQ(now.error, "");
  EXPECT_EQ(now.events, 20'000u);
}

TEST_F(damaged_recordings, other_files_are_refused) {
  save({});
  EXPECT_NE(read().error, "");
  save(std::vector<unsigned char>(10'000, 'x'));
  EXPECT_NE(read().error, "");
  recording_file file;
  EXPECT_NE(file.open(folder_), "");
  EXPECT_NE(file.open("/nonexistent/recording"), "");
  std::string const pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(file.open(pipe), "");
  ::unlink(pipe.c_str());
}

}  // namespace
}  // namespace gpumem::recording
