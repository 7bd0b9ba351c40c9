// Names without pointers: each name, in order, and a null after each.
#include "core/base/text/packed_names.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace gpumem::base {
namespace {

constexpr auto names = pack_names<3>(
    "cuMemAlloc\0"
    "a\0"
    "cuMemFree_v2\0");
static_assert(names[1] == "a" && names.size() == 3);

TEST(packed_names, hold_each_name_with_a_null_after_it) {
  EXPECT_EQ(names[0], "cuMemAlloc");
  EXPECT_EQ(names[1], "a");
  EXPECT_EQ(names[2], "cuMemFree_v2");
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(std::strlen(names[i].data()), names[i].size());
}

}  // namespace
}  // namespace gpumem::base
