// file_pattern: each letter, hostile values, and files that are never overwritten.
#include "core/base/files/file_pattern.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

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

struct set_variables {
  std::vector<std::string> names;
  explicit set_variables(std::vector<std::pair<char const*, char const*>> const& wanted) {
    for (char const* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK",
                             "WORLD_SIZE", "TORCHELASTIC_RUN_ID"})
      ::unsetenv(name);
    for (auto const& [name, value] : wanted) ::setenv(name, value, 1), names.emplace_back(name);
  }
  ~set_variables() {
    for (auto const& name : names) ::unsetenv(name.c_str());
  }
};

std::string rank_of(std::vector<std::pair<char const*, char const*>> const& wanted) {
  set_variables const set(wanted);
  return expanded("%r");
}

TEST(file_pattern, the_rank_is_the_innermost_launchers) {
  // srun starts torchrun once a node: all its workers have one SLURM_PROCID.
  EXPECT_EQ(
      rank_of({{"SLURM_PROCID", "1"}, {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"TORCHELASTIC_RUN_ID", "x"}}),
      "5");
  EXPECT_EQ(rank_of({{"PMI_RANK", "1"}, {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"TORCHELASTIC_RUN_ID", "x"}}),
            "5");
  EXPECT_EQ(rank_of({{"SLURM_PROCID", "1"}, {"RANK", "5"}, {"WORLD_SIZE", "8"}}), "5");
  // A RANK of a batch script is nobody's.
  EXPECT_EQ(rank_of({{"SLURM_PROCID", "1"}, {"RANK", "0"}}), "1");
  EXPECT_EQ(rank_of({{"OMPI_COMM_WORLD_RANK", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "4"}}), "2");
  EXPECT_EQ(rank_of({{"RANK", "3"}}), "3");
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

TEST(file_pattern, a_folder_is_no_file) {
  folder const here;
  created_file const file = create_without_overwriting(here.path);
  EXPECT_EQ(file.descriptor, -1);
  EXPECT_NE(file.error.find("name a file in it"), std::string::npos) << file.error;
}

TEST(file_pattern, a_fifo_without_a_reader_is_said) {
  folder const here;
  std::string const name = here.path + "/fifo";
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  EXPECT_NE(create_without_overwriting(name).error.find("nobody reads"), std::string::npos);
}

TEST(file_pattern, standard_error_is_what_the_caller_says) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  created_file const file = create_without_overwriting("/dev/stderr", {.error = ends[1]});
  EXPECT_EQ(::write(file.descriptor, "x", 1), 1);
  char got = 0;
  EXPECT_EQ(::read(ends[0], &got, 1), 1);
  EXPECT_NE(create_without_overwriting("/dev/stderr", {.error = -1}).error, "");
  for (int const descriptor : {file.descriptor, ends[0], ends[1]}) ::close(descriptor);
}

TEST(file_pattern, words_for_the_streams_are_no_files) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  for (char const* word : {"stdout", "-", "/dev/stdout", "stderr", "/dev/stderr"}) {
    bool const error = std::string_view(word).ends_with("err");
    created_file const file =
        create_without_overwriting(word, {.out = error ? -1 : ends[1], .error = error ? ends[1] : -1});
    EXPECT_EQ(file.error, "") << word;
    EXPECT_EQ(::write(file.descriptor, "x", 1), 1);
    char got = 0;
    EXPECT_EQ(::read(ends[0], &got, 1), 1) << word;
    ::close(file.descriptor);
    EXPECT_FALSE(std::filesystem::exists(word) && word[0] != '/') << word;
  }
  EXPECT_NE(create_without_overwriting("stdout", {.out = -1}).error, "");
  for (int const descriptor : ends) ::close(descriptor);
}

}  // namespace
}  // namespace gpumem::base
