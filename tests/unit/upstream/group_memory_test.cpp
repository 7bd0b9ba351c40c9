// What control groups leave a process, of files as both versions of the hierarchy have them: a group's own
// limit and those above it, what is dropped before anybody is killed, and files that say nothing.
#include "core/upstream/host/group_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace gpumem::upstream {
namespace {

constexpr std::uint64_t gib = 1ull << 30;
constexpr std::uint64_t unlimited = ~std::uint64_t{0};

struct group_memory : testing::Test {
  std::filesystem::path root;

  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "gpumem_groups_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  void write(std::string const& path, std::string const& text) const {
    std::filesystem::path const file = root / path.substr(1);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void limit(std::string const& group, std::uint64_t bytes, std::uint64_t used) const {
    write(group + "/memory.max", std::to_string(bytes) + "\n");
    write(group + "/memory.current", std::to_string(used) + "\n");
  }
  host_memory::amount measure() const { return measure_groups(root.c_str()); }
};

TEST_F(group_memory, of_the_second_version_every_group_up_to_the_root_counts) {
  write("/proc/self/cgroup", "0::/system.slice/job_7/step_0\n");
  write("/sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "max\n");
  limit("/sys/fs/cgroup/system.slice/job_7", 32 * gib, 10 * gib);
  limit("/sys/fs/cgroup/system.slice", 64 * gib, 50 * gib);
  EXPECT_EQ(measure().total, 32 * gib);
  EXPECT_EQ(measure().available, 14 * gib) << "the group above has less left";
}

TEST_F(group_memory, what_is_dropped_first_is_available) {
  write("/proc/self/cgroup", "0::/\n");
  limit("/sys/fs/cgroup", 8 * gib, 7 * gib);
  write("/sys/fs/cgroup/memory.stat",
        "anon 1\nactive_file 5\ninactive_file " + std::to_string(3 * gib) + "\n");
  EXPECT_EQ(measure().available, 4 * gib);
}

TEST_F(group_memory, of_the_first_version_the_controller_of_memory) {
  write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/a\n3:cpuset:/b\n0::/\n");
  write("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", std::to_string(4 * gib));
  write("/sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes", std::to_string(gib));
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(measure().total, 4 * gib);
  EXPECT_EQ(measure().available, 3 * gib);
}

// As in a container without a namespace of its own, whose mount begins at its group.
TEST_F(group_memory, a_path_that_is_not_there_leaves_the_root) {
  write("/proc/self/cgroup", "4:memory:/docker/of/the/host\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * gib));
  EXPECT_EQ(measure().total, 2 * gib);
}

TEST_F(group_memory, more_used_than_the_limit_leaves_nothing) {
  write("/proc/self/cgroup", "0::/\n");
  limit("/sys/fs/cgroup", gib, 2 * gib);
  EXPECT_EQ(measure().available, 0u);
}

TEST_F(group_memory, what_cannot_be_read_limits_nothing) {
  EXPECT_EQ(measure().total, unlimited);
  for (std::string const& text :
       {std::string("\n"), std::string("0:"), std::string("::"), std::string("no colon at all"),
        std::string("4:memoryless:/a\n"), "0::/" + std::string(5000, 'x')}) {
    write("/proc/self/cgroup", text);
    EXPECT_EQ(measure().total, unlimited) << text.substr(0, 20);
    EXPECT_EQ(measure().available, unlimited);
  }
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "many\n");
  EXPECT_EQ(measure().total, unlimited);
}

TEST_F(group_memory, of_this_machine_is_at_most_what_it_has) {
  host_memory::amount const here = host_memory::of_this_machine().measure();
  EXPECT_GT(here.total, 0u);
  EXPECT_LE(here.available, here.total);
}

}  // namespace
}  // namespace gpumem::upstream
