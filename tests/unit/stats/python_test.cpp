// What is known of CPython without one: its tables of lines, byte for byte as three versions write them, and
// offsets that are not what they are taken for. Real interpreters: integration.ledger.python_frames.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "core/stats/callers/python/frames.hpp"
#include "core/stats/callers/python/line_table.hpp"
#include "core/stats/callers/python_lines.hpp"
#include "tests/unit/stats/page_fixture.hpp"

namespace gpumem::stats::python {
namespace {

using bytes = std::vector<unsigned char>;

std::uint32_t line(bytes const& table, lines_of format, std::uint32_t first, std::uint64_t instruction) {
  base::own_memory_pieces memory(base::own_memory_pieces::places{});
  return line_in(memory, {table.data(), table.size(), format}, first, instruction);
}

// Of "def f(x):\n    y = [\n        x,\n    ]\n    return y\n", first line 1, by compile() of each version.
TEST(python_lines, as_3_9_writes_them) {
  bytes const table{0, 2, 2, 255, 4, 3};  // co_lnotab: 3 at 0, 2 at 2, 5 at 6
  EXPECT_EQ(line(table, lines_of::line_increments, 1, 0), 3u);
  EXPECT_EQ(line(table, lines_of::line_increments, 1, 2), 2u);
  EXPECT_EQ(line(table, lines_of::line_increments, 1, 4), 2u);
  EXPECT_EQ(line(table, lines_of::line_increments, 1, 8), 5u);
}

TEST(python_lines, as_3_10_writes_them) {
  bytes const table{2, 2, 4, 255, 2, 128, 4, 3};
  EXPECT_EQ(line(table, lines_of::line_ranges, 1, 0), 3u);
  EXPECT_EQ(line(table, lines_of::line_ranges, 1, 4), 2u);
  EXPECT_EQ(line(table, lines_of::line_ranges, 1, 6), 0u);  // -128: none
  EXPECT_EQ(line(table, lines_of::line_ranges, 1, 10), 5u);
  EXPECT_EQ(line(table, lines_of::line_ranges, 1, 12), 0u);  // behind the end
}

TEST(python_lines, as_3_11_and_later_write_them) {
  bytes const table{0x80,                                 // short form: the same line, one instruction
                    0x00,                                 //
                    0xd9, 0x05, 0x06,                     // one line further, two instructions
                    0xf1, 0x04, 0x00, 0x05, 0x06,         // long form: +2, two instructions
                    0xfe, 0x00,                           // none, seven instructions
                    0xe8, 0x03,                           // no columns: -1, one instruction
                    0xf0, 0x43, 0x01, 0x00, 0x01, 0x01};  // long form: -(0x43 0x01 = 67) / 2 = -33
  auto const at = [&](std::uint64_t instruction) {
    return line(table, lines_of::locations, 100, instruction);
  };
  EXPECT_EQ(at(0), 100u);
  EXPECT_EQ(at(2), 101u);
  EXPECT_EQ(at(4), 101u);
  EXPECT_EQ(at(6), 103u);
  EXPECT_EQ(at(10), 0u);
  EXPECT_EQ(at(24), 102u);
  EXPECT_EQ(at(26), 69u);
  EXPECT_EQ(at(28), 0u);
}

TEST(python_lines, tables_that_are_none_end) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    bytes table(random() % 2000);
    for (auto& byte : table) byte = static_cast<unsigned char>(random());
    for (lines_of format : {lines_of::line_increments, lines_of::line_ranges, lines_of::locations})
      line(table, format, static_cast<std::uint32_t>(random()), random());
  }
  base::own_memory_pieces memory(base::own_memory_pieces::places{});
  EXPECT_EQ(line_in(memory, {nullptr, 1000, lines_of::locations}, 1, 0), 0u);
  EXPECT_EQ(
      line_in(memory, {reinterpret_cast<void const*>(64), ~std::size_t{0}, lines_of::line_ranges}, 1, 0), 0u);
}

TEST(python_offsets, are_told_by_versions_that_are_known) {
  offsets found;
  for (std::uint32_t version : {0x0309u, 0x030au, 0x030bu, 0x030cu}) {
    EXPECT_TRUE(offsets_of_version(version, found)) << version;
    EXPECT_EQ(found.version, version);
  }
  for (std::uint32_t version : {0u, 0x0207u, 0x0308u, 0x030du, 0x0400u})
    EXPECT_FALSE(offsets_of_version(version, found)) << version;
}

TEST(python_offsets, of_another_structure_are_not_believed) {
  std::array<std::uint64_t, 128> words{};
  offsets found;
  EXPECT_FALSE(read_offsets(words.data(), 0x030d, found));
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = 0x030d00f0;
  EXPECT_TRUE(read_offsets(words.data(), 0x030d, found));
  EXPECT_FALSE(read_offsets(words.data(), 0x030e, found)) << "another version than the program's";
  words[1] = 0x03100000;
  EXPECT_FALSE(read_offsets(words.data(), 0x0310, found)) << "a version that is not known";
  words[1] = 0x030d00f0;
  words[23] = ~std::uint64_t{0};
  EXPECT_FALSE(read_offsets(words.data(), 0x030d, found)) << "no offset of a structure";
  EXPECT_FALSE(read_offsets(nullptr, 0x030d, found));
}

TEST(python_frames, are_none_without_an_interpreter) {
  EXPECT_FALSE(is_here());
  EXPECT_EQ(place_of_this_thread(nullptr), 0u);
  python_line lines[4];
  EXPECT_EQ(python_lines_here(lines), 0u);
}

using python_page = page_fixture;

TEST_F(python_page, keeps_lines_with_their_text_once) {
  expect_good_child([] {
    open_test_page();
    python_line const first = python_line_of("/a/train.py", "forward", 132);
    EXPECT_NE(first, 0);
    EXPECT_EQ(python_line_of("/a/train.py", "forward", 132), first);
    EXPECT_NE(python_line_of("/a/train.py", "forward", 133), first);
    EXPECT_NE(python_line_of("/b/train.py", "forward", 132), first);
    // More than there are places for: some are not kept, none is taken for another.
    std::size_t kept = 0;
    for (std::uint32_t i = 0; i < 3 * max_python_lines; ++i)
      kept += python_line_of("/a/train.py", "f", 1000 + i) != 0;
    EXPECT_GT(kept, max_python_lines / 2);
    EXPECT_LT(kept, max_python_lines);
    EXPECT_EQ(python_line_of("/a/train.py", "forward", 132), first);
    page const& now = *current_page();
    EXPECT_STREQ(now.python.lines[first - 1].function, "forward");
    EXPECT_EQ(now.python.lines[first - 1].line, 132u);
    EXPECT_STREQ(now.python.files[now.python.lines[first - 1].file].path, "/a/train.py");
  });
}

}  // namespace
}  // namespace gpumem::stats::python
