// Events as bytes: each comes back as it was, in at most 24 bytes on average; cut bytes are no event.
#include "core/recording/codec.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/recording/memory_file.hpp"
#include "tests/unit/seeds.hpp"

namespace gpumem::recording {
namespace {

TEST(codec, every_event_comes_back) {
  for (unsigned const seed : tests::seeds()) {
    random_events program(seed);
    std::vector<event> events;
    for (int i = 0; i < 20'000; ++i) events.push_back(program.next());
    events.push_back({.stamp = 1,
                      .address = ~0ull,
                      .bytes = ~0ull,
                      .stream = ~0ull,
                      .rounding = ~0u,
                      .site = 65535,
                      .what = action::observed_taken,
                      .keys = key_kind::physical,
                      .device = 255,
                      .library = 255,
                      .ring = 255});
    events.push_back({.stamp = ~0ull, .bytes = 7, .stream = 2, .number = 2, .what = action::refused});
    events.push_back({.stamp = 5, .address = 9, .number = 77, .what = action::completed});
    events.push_back(
        {.stamp = 5, .address = 3, .number = 256, .what = action::phase_begins, .keys = key_kind::phase});
    events.push_back({.stamp = 6, .address = 3, .what = action::phase_ends, .keys = key_kind::phase});
    events.push_back({.stamp = 6, .number = 4711, .what = action::thread, .ring = 3});
    std::vector<unsigned char> bytes(events.size() * most_event_bytes);
    byte_writer out(bytes);
    coding_context before;
    for (event const& one : events) encode(one, before, out);
    EXPECT_LE(out.used(), events.size() * 24);
    bytes.resize(out.used());
    byte_reader in(bytes);
    before = {};
    for (event const& one : events) {
      event read;
      ASSERT_TRUE(decode(in, before, read));
      EXPECT_EQ(read, one);
    }
    EXPECT_TRUE(in.at_end());
  }
}

TEST(codec, no_event_is_longer_than_said) {
  unsigned char bytes[256];
  byte_writer out(bytes);
  coding_context before;
  encode({.stamp = 1ull << 63,
          .address = 1ull << 63,
          .bytes = ~0ull,
          .stream = 1ull << 63,
          .rounding = ~0u,
          .site = 65535,
          .what = action::observed_taken,
          .keys = key_kind::physical},
         before, out);
  EXPECT_LE(out.used(), most_event_bytes);
}

TEST(codec, what_is_cut_is_no_event) {
  unsigned char bytes[128];
  byte_writer out(bytes);
  coding_context before;
  encode({.stamp = 1000,
          .address = 0x7f0000001000,
          .bytes = 4096,
          .stream = 7,
          .site = 300,
          .what = action::allocate},
         before, out);
  for (std::size_t length = 0; length < out.used(); ++length) {
    byte_reader in({bytes, length});
    event read;
    before = {};
    EXPECT_FALSE(decode(in, before, read)) << length;
  }
}

}  // namespace
}  // namespace gpumem::recording
