// file_pattern: each letter, hostile values, and files that are never overwritten.
#include "core/base/file_pattern.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace gpumem::base {
namespace {

pattern_values const values{"/opt/bin/train", 4711, "node17", 2};

std::string expanded(char const* pattern) {
  auto const result = expand_pattern(pattern, values);
  EXPECT_EQ(result.error, "");
  return result.text;
}

struct folder {
  std::string path = "/tmp/gpumem_file_pattern_XXXXXX";
  folder() { EXPECT_NE(::mkdtemp(path.data()), nullptr); }
  ~folder() { std::filesystem::remove_all(path); }
};

TEST(file_pattern, letters) {
  ::setenv("GPUMEM_TEST_JOB", "a/b", 1);
  ::setenv("RANK", "3", 1);
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("PMI_RANK");
  ::unsetenv("PMIX_RANK");
  ::unsetenv("SLURM_PROCID");
  EXPECT_EQ(expanded("g.%e.%p.%h.%x.%r.%%"), "g.train.4711.node17.2.3.%");
  EXPECT_EQ(expanded("out/%q{GPUMEM_TEST_JOB}-%q{GPUMEM_NOT_SET}"), "out/a_b-");
  ::setenv("OMPI_COMM_WORLD_RANK", "5", 1);
  EXPECT_EQ(expanded("%r"), "5");
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("RANK");
  EXPECT_EQ(expanded("%r"), "0");
}

TEST(file_pattern, mistakes_name_the_remedy) {
  EXPECT_NE(expand_pattern("%z", values).error.find("%p pid"), std::string::npos);
  EXPECT_NE(expand_pattern("x%", values).error, "");
  EXPECT_NE(expand_pattern("%q", values).error.find("%q{JOB_ID}"), std::string::npos);
  EXPECT_NE(expand_pattern("%q{OPEN", values).error, "");
  EXPECT_NE(expand_pattern("", values).error, "");
}

TEST(file_pattern, a_taken_name_gets_a_number) {
  folder const here;
  std::string const name = here.path + "/report.txt";
  for (char const* suffix : {"", ".1", ".2"}) {
    created_file const file = create_without_overwriting(name);
    ASSERT_EQ(file.error, "");
    EXPECT_EQ(file.path, name + suffix);
    ::close(file.descriptor);
  }
}

TEST(file_pattern, a_link_is_not_followed_to_an_existing_file) {
  folder const here;
  std::filesystem::create_symlink(here.path + "/absent", here.path + "/report");
  created_file const file = create_without_overwriting(here.path + "/report");
  ASSERT_EQ(file.error, "");
  EXPECT_EQ(file.path, here.path + "/report.1");
  ::close(file.descriptor);
}

TEST(file_pattern, no_folder_is_made) {
  folder const here;
  created_file const file = create_without_overwriting(here.path + "/absent/report");
  EXPECT_EQ(file.descriptor, -1);
  EXPECT_NE(file.error.find("gpumem makes no folders"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(here.path + "/absent"));
}

TEST(file_pattern, devices_are_opened_as_they_are) {
  created_file const file = create_without_overwriting("/dev/null");
  EXPECT_EQ(file.error, "");
  EXPECT_EQ(file.path, "/dev/null");
  ::close(file.descriptor);
}

}  // namespace
}  // namespace gpumem::base
