// Patterns of rules: stars, question marks, sets, and text that is none of them.
#include "core/base/text/glob.hpp"

#include <gtest/gtest.h>

#include <string>

namespace gpumem::base {
namespace {

TEST(glob, plain_text_matches_itself_only) {
  EXPECT_TRUE(matches("libfoo.so", "libfoo.so"));
  EXPECT_FALSE(matches("libfoo.so", "libfoo.so.1"));
  EXPECT_FALSE(matches("libfoo.so", "alibfoo.so"));
  EXPECT_FALSE(matches("libfoo.so", ""));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(glob, a_star_is_any_text_also_none_and_slashes) {
  EXPECT_TRUE(matches("libnccl*", "libnccl.so.2"));
  EXPECT_TRUE(matches("libnccl*", "libnccl"));
  EXPECT_FALSE(matches("libnccl*", "/usr/lib/libnccl.so.2"));
  EXPECT_TRUE(matches("/opt/*/libcudnn*", "/opt/a/b/c/libcudnn.so.9"));
  EXPECT_TRUE(matches("*a*b*c*", "xaxbxbxcx"));
  EXPECT_FALSE(matches("*a*b*c", "xaxbxbxcx"));
  EXPECT_TRUE(matches("**", "x"));
  EXPECT_TRUE(matches("*", ""));
}

TEST(glob, a_question_mark_is_one_character) {
  EXPECT_TRUE(matches("lib?.so", "liba.so"));
  EXPECT_FALSE(matches("lib?.so", "lib.so"));
  EXPECT_FALSE(matches("lib?.so", "libab.so"));
}

TEST(glob, a_set_is_one_of_its_characters) {
  EXPECT_TRUE(matches("lib[abc].so", "libb.so"));
  EXPECT_FALSE(matches("lib[abc].so", "libd.so"));
  EXPECT_TRUE(matches("v[0-9]*", "v7.1"));
  EXPECT_FALSE(matches("v[0-9]*", "vx"));
  EXPECT_TRUE(matches("v[!0-9]", "vx"));
  EXPECT_FALSE(matches("v[!0-9]", "v7"));
  EXPECT_TRUE(matches("v[]]", "v]"));
  EXPECT_TRUE(matches("v[a-]", "v-"));
  EXPECT_TRUE(matches("*[0-9]", "a1b2"));
}

TEST(glob, a_set_without_an_end_is_named_as_a_problem_and_is_text) {
  EXPECT_FALSE(glob_problem("lib[ab").empty());
  EXPECT_FALSE(glob_problem("").empty());
  EXPECT_TRUE(glob_problem("lib[ab]*").empty());
  EXPECT_TRUE(glob_problem("lib[]]").empty());
  EXPECT_FALSE(glob_problem("lib[]").empty());
  EXPECT_TRUE(matches("lib[ab", "lib[ab"));
}

TEST(glob, many_stars_do_not_take_for_ever) {
  std::string const text(2000, 'a');
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

}  // namespace
}  // namespace gpumem::base
