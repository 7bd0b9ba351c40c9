// A state page of a child process, as tests need it: each test runs its body in a forked child, because a
// process opens its page once. The child's exit code is the number of failed expectations, its messages come
// out on stderr.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/stats/page/state_page.hpp"
#include "core/stats/snapshot.hpp"

namespace gpumem::stats {

class page_fixture : public testing::Test {
 public:
  static constexpr std::array<hook_description, 4> hooks{{{"cuMemAlloc_v2", "device"},
                                                          {"cuMemFree_v2", "free"},
                                                          {"cuMemCreate", "observed"},
                                                          {"cuMemAllocAsync", "device"}}};

  static bool open_test_page() { return open_page({hooks, "0.1.0", "run-1"}); }

 protected:
  page_fixture() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    ::setenv("GPUMEM_STATE_DIR", folder_.c_str(), 1);
  }
  ~page_fixture() override { std::filesystem::remove_all(folder_); }

  // Status as waitpid gives it.
  static int in_child(std::function<void()> const& body) {
    pid_t const child = ::fork();
    if (child == 0) {
      body();
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  static void expect_good_child(std::function<void()> const& body) { EXPECT_EQ(in_child(body), 0); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (auto const& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().string());
    return names;
  }

  std::string folder_ = "/tmp/gpumem_page_XXXXXX";
};

}  // namespace gpumem::stats
