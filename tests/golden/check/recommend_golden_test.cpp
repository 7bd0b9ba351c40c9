// Every NAME.json of recommend/ and of the goldens of the report is a report, and what `gpumem check
// --recommend` says of it must be recommend/NAME.expected. UPDATE_GOLDEN=1 writes the expected files instead;
// read the difference before committing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "shim/cli/recommend/advice.hpp"
#include "shim/cli/recommend/report_fields.hpp"

namespace gpumem::cli {
namespace {

namespace fs = std::filesystem;

fs::path const expected_folder = fs::path(GPUMEM_GOLDEN_FOLDER) / "recommend";
fs::path const examples = fs::path(GPUMEM_SOURCE_FOLDER) / "config/examples";

std::string contents(fs::path const& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(recommend_golden, every_report_gets_what_is_expected) {
  std::set<fs::path> inputs;
  for (fs::path const& folder : {expected_folder, fs::path(GPUMEM_SOURCE_FOLDER) / "tests/golden/report"}) {
    for (auto const& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") inputs.insert(entry.path());
    }
  }
  ASSERT_GT(inputs.size(), 12u);
  std::set<std::string> recommended;
  for (fs::path const& input : inputs) {
    program_use const use = use_of_report(report::document::parse(contents(input)));
    std::string const now = recommendation(use, "examples/");
    fs::path const expected = expected_folder / (input.stem().string() + ".expected");
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(expected, std::ios::binary) << now;
    EXPECT_EQ(now, contents(expected)) << input << " changed; UPDATE_GOLDEN=1 accepts it";
    for (device_use const& device : use.devices) {
      for (answer const& one : answers_of(use, device)) {
        EXPECT_EQ(one.yes, !one.example.empty() || !one.instead.empty()) << input << one.question;
        EXPECT_EQ(one.yes, !one.reason.empty()) << input << one.question;
        EXPECT_FALSE(one.facts.empty()) << input << one.question;
        if (!one.example.empty()) recommended.insert(one.example);
      }
    }
  }
  for (std::string const& name : recommended) EXPECT_TRUE(fs::exists(examples / name)) << name;
  for (char const* name :
       {"spill.toml", "rmm/failure_callback.toml", "rmm/managed_pool.toml", "rmm/managed_prefetch.toml",
        "compact.toml", "compact_vmm.toml", "small_blocks.toml", "arena.toml", "default.toml",
        "nccl_native.toml", "cudnn_arena.toml"})
    EXPECT_TRUE(recommended.contains(name)) << "no golden shows " << name;
}

}  // namespace
}  // namespace gpumem::cli
