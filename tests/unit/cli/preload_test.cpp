// The environment that `gpumem run` gives a program.
#include "shim/cli/programs/preload.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpumem::cli {
namespace {

bool contains(std::vector<std::string> const& list, char const* item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

TEST(preload, environment) {
  char const* const from[] = {"PATH=/bin", "LD_PRELOAD=a.so b.so", "GPUMEM_CONFIG=old", "GPUMEM_RUN_ID=outer",
                              nullptr};
  auto const made = environment_of(from, {"/lib/libgpumem.so", "/etc/chain.toml", "7-1", "/run/x"});
  EXPECT_EQ(made.size(), 5u);
  EXPECT_TRUE(contains(made, "PATH=/bin"));
  EXPECT_TRUE(contains(made, "LD_PRELOAD=/lib/libgpumem.so:a.so b.so"));
  EXPECT_TRUE(contains(made, "GPUMEM_CONFIG=/etc/chain.toml"));
  EXPECT_TRUE(contains(made, "GPUMEM_RUN_ID=7-1"));
  EXPECT_TRUE(contains(made, "GPUMEM_STATE_DIR=/run/x"));
}

TEST(preload, what_is_not_set_stays) {
  char const* const from[] = {"GPUMEM_CONFIG=old", "GPUMEM_STATE_DIR=/s", "LD_PRELOAD=", nullptr};
  auto const made = environment_of(from, {"/lib/libgpumem.so", "", "7-1", ""});
  EXPECT_TRUE(contains(made, "GPUMEM_CONFIG=old"));
  EXPECT_TRUE(contains(made, "GPUMEM_STATE_DIR=/s"));
  EXPECT_TRUE(contains(made, "LD_PRELOAD=/lib/libgpumem.so"));
}

}  // namespace
}  // namespace gpumem::cli
