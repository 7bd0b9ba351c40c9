// Names of phases: numbers go, words stay, nothing is longer than its place, and no character is cut in two.
#include "core/phases/phase_names.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "core/base/text/utf8.hpp"

namespace gpumem::phases {
namespace {

std::string of(std::string_view name, std::string_view domain = "") {
  return std::string(name_of_phase(domain, name).view());
}

TEST(phase_names, numbers_are_replaced) {
  EXPECT_EQ(of("step 17"), "step N");
  EXPECT_EQ(of("aten::add, seq = 17, op_id = 4"), "aten::add, seq = N, op_id = N");
  EXPECT_EQ(of("[[2, 3], [400]]"), "[[N, N], [N]]");
  EXPECT_EQ(of("step_12"), "step_N");
  EXPECT_EQ(of("layers.0.attention"), "layers.N.attention");
  EXPECT_EQ(of("block 0x7ffe12aB!"), "block N!");
  EXPECT_EQ(of("7"), "N");
  EXPECT_EQ(of("-5 %"), "-N %");
}

TEST(phase_names, words_keep_their_digits) {
  for (char const* word : {"conv2d", "layer3", "fp16 cast", "2d", "0xyz", "h264 decode", "3ème"})
    EXPECT_EQ(of(word), word);
}

TEST(phase_names, domains_and_no_names) {
  EXPECT_EQ(of("read", "libcudf"), "libcudf:read");
  EXPECT_EQ(of(""), "(no name)");
  EXPECT_EQ(of("", "d"), "d:(no name)");
  std::string wanted(42, 'd');
  wanted.replace(40, 2, ":x");
  EXPECT_EQ(of("x", std::string(500, 'd')), wanted);
}

TEST(phase_names, whatever_the_bytes) {
  std::mt19937 random(20261124);
  for (int i = 0; i < 20'000; ++i) {
    std::string name(random() % 300, '\0');
    for (char& letter : name) letter = static_cast<char>(random());
    auto const made = name_of_phase(i % 2 == 0 ? "" : name, name);
    ASSERT_LE(made.length, longest_name);
    ASSERT_EQ(made.text[made.length], '\0');
  }
}

TEST(phase_names, long_ones_are_cut_between_characters) {
  for (std::string const letter : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "x"}) {
    for (std::size_t before = 0; before < 5; ++before) {
      std::string name(before, 'a');
      while (name.size() < 400) name += letter;
      std::string const made = of(name);
      ASSERT_GT(made.size(), longest_name - 4);
      for (std::string_view rest = made; !rest.empty();) {
        std::size_t const size = base::utf8_sequence(rest);
        ASSERT_NE(size, 0u) << made;
        rest.remove_prefix(size);
      }
    }
  }
}

}  // namespace
}  // namespace gpumem::phases
