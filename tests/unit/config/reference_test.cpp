// REFERENCE.md is what schema.def says today.
#include "config/schema/reference.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace gpumem::config {
namespace {

TEST(reference, is_up_to_date) {
  std::ostringstream text;
  text << std::ifstream(GPUMEM_CONFIG_FOLDER "/REFERENCE.md").rdbuf();
  EXPECT_EQ(text.str(), reference_text()) << "build the target config_reference";
}

}  // namespace
}  // namespace gpumem::config
