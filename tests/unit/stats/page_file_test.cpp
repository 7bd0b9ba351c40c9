// The folder of state pages: ours, private, no link; and the signs that tell processes apart.
#include "core/stats/page/file/page_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/unit/stats/page_fixture.hpp"

namespace gpumem::stats {
namespace {

using page_file_test = page_fixture;

TEST_F(page_file_test, a_folder_is_made_private) {
  std::string const path = folder_ + "/new";
  EXPECT_EQ(check_directory(path.c_str(), true), nullptr);
  struct stat there {};
  ASSERT_EQ(::stat(path.c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 07777, 0700u);
}

TEST_F(page_file_test, what_is_not_private_to_us_is_refused) {
  std::string const link = folder_ + "/link";
  std::filesystem::create_directory_symlink(folder_, link);
  EXPECT_STREQ(check_directory(link.c_str(), true), "it is a symbolic link; it must be a folder");
  EXPECT_EQ(check_directory(folder_.c_str(), false), nullptr);
  ::chmod(folder_.c_str(), 0750);
  EXPECT_STREQ(check_directory(folder_.c_str(), false), "others can enter it; its mode must be 0700");
  ::chmod(folder_.c_str(), 0700);
  EXPECT_NE(check_directory("/dev/null", true), nullptr);
  EXPECT_NE(check_directory((folder_ + "/absent").c_str(), false), nullptr);
  EXPECT_NE(check_directory((folder_ + "/absent/deeper").c_str(), true), nullptr);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
    EXPECT_STREQ(check_directory(folder_.c_str(), false), "it belongs to another user");
    ASSERT_EQ(::chown(folder_.c_str(), 0, 0), 0);
  }
}

TEST_F(page_file_test, the_folder_comes_from_the_environment) {
  char path[path_limit];
  ASSERT_TRUE(state_directory(path));
  EXPECT_EQ(std::string(path), folder_);
  ::setenv("GPUMEM_STATE_DIR", std::string(600, 'x').c_str(), 1);
  EXPECT_FALSE(state_directory(path));
  ::setenv("GPUMEM_STATE_DIR", "relative", 1);
  ASSERT_TRUE(state_directory(path));
  EXPECT_EQ(std::string(path), std::filesystem::current_path().string() + "/relative");
  ::unsetenv("GPUMEM_STATE_DIR");
  ::setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  ASSERT_TRUE(state_directory(path));
  EXPECT_EQ(std::string(path), folder_ + "/gpumem");
  ::setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
  ASSERT_TRUE(state_directory(path));
  EXPECT_EQ(std::string(path), "/tmp/gpumem-" + std::to_string(::geteuid()));
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(page_file_test, start_times) {
  EXPECT_NE(start_ticks_of(::getpid()), 0u);
  EXPECT_EQ(start_ticks_of(::getpid()), start_ticks_of(::getpid()));
  EXPECT_EQ(start_ticks_of(-5), 0u);
}

}  // namespace
}  // namespace gpumem::stats
