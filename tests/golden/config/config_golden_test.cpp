// Every NAME.toml here is loaded, and the whole text of its diagnostics, or else the effective configuration,
// must be NAME.expected. UPDATE_GOLDEN=1 writes the expected files instead; read the difference before
// committing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "config/load.hpp"
#include "config/schema/schema.hpp"
#include "config/text/suggest.hpp"

namespace gpumem::config {
namespace {

namespace fs = std::filesystem;

std::string contents(fs::path const& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<fs::path> files(std::string const& extension) {
  std::set<fs::path> found;
  for (auto const& entry : fs::directory_iterator(GPUMEM_GOLDEN_FOLDER)) {
    if (entry.path().extension() == extension) found.insert(entry.path());
  }
  return {found.begin(), found.end()};
}

// A new type is in each list of types that a message gives: here they are "<all types>", "<drivers of
// device>".
std::string without_lists(std::string text) {
  std::vector<std::pair<std::string, std::string>> lists{{joined(names_of_types()), "<all types>"}};
  for (std::string const route : {"device", "managed", "host"}) {
    std::vector<std::string_view> drivers, adaptors;
    for (auto const& type : all_types()) {
      if (!holds_word(type.routes, route)) continue;
      if (type.part == role::driver) drivers.push_back(type.name);
      if (type.part == role::adaptor) adaptors.push_back(type.name);
    }
    lists.emplace_back(": " + joined(drivers) + "\n", ": <drivers of " + route + ">\n");
    lists.emplace_back(": " + joined(adaptors) + "\n", ": <adaptors of " + route + ">\n");
  }
  for (auto const& [list, name] : lists) {
    for (std::size_t at = 0; (at = text.find(list, at)) != text.npos; at += name.size())
      text.replace(at, list.size(), name);
  }
  return text;
}

std::string result_of(fs::path const& path) {
  auto const result = load_text(path.filename().string(), contents(path));
  return without_lists(result.text(consequence::not_started)) + (result.failed() ? "" : result.plan.text);
}

TEST(config_golden, every_file_says_what_is_expected) {
  bool const update = std::getenv("UPDATE_GOLDEN") != nullptr;
  auto const inputs = files(".toml");
  ASSERT_GT(inputs.size(), 50u);
  for (auto const& input : inputs) {
    fs::path expected = input;
    expected.replace_extension(".expected");
    std::string const now = result_of(input);
    if (update) std::ofstream(expected, std::ios::binary) << now;
    EXPECT_EQ(now, contents(expected)) << input.filename() << " changed; UPDATE_GOLDEN=1 accepts it";
  }
}

TEST(config_golden, no_expected_file_is_left_over) {
  for (auto expected : files(".expected"))
    EXPECT_TRUE(fs::exists(expected.replace_extension(".toml"))) << expected;
}

// The goldens hold placeholders for them: whether the lists themselves are right is seen here.
TEST(config_golden, lists_of_types_name_each) {
  auto const said = [](char const* file) {
    return load_text(file, contents(fs::path(GPUMEM_GOLDEN_FOLDER) / file)).text(consequence::not_started);
  };
  EXPECT_NE(said("unknown_types.toml").find(", pinned_host, pool, arena, "), std::string::npos);
  EXPECT_NE(said("nothing_after.toml").find("its drivers are: cuda, cuda_async, "), std::string::npos);
  EXPECT_EQ(said("nothing_after.toml").find("pinned_host"), std::string::npos) << "serves host memory";
  EXPECT_NE(said("adaptors_misplaced.toml").find("it can hold: pool, arena, "), std::string::npos);
}

// A message that no golden shows may say anything.
TEST(config_golden, every_code_of_a_file_is_shown) {
  std::string all;
  for (auto const& path : files(".expected")) all += contents(path);
  for (char const* code :
       {"E101", "E103", "E104", "E105", "E106", "E107", "E108", "E201", "E202", "E203", "E204", "E205",
        "E206", "E207", "E208", "E210", "E211", "E213", "E214", "E215", "E216", "E217", "E218", "E219",
        "E220", "E221", "E222", "E223", "E224", "E301", "E302", "E303", "E304", "E305", "E306", "E307",
        "E309", "E310", "E311", "E312", "E313", "W501", "W502", "W503", "W504"}) {
    EXPECT_NE(all.find("[" + std::string(code) + "]"), all.npos) << code;
  }
}

TEST(config_golden, five_mistakes_are_five_positioned_errors) {
  auto const result = load_text("x.toml", contents(fs::path(GPUMEM_GOLDEN_FOLDER) / "five_mistakes.toml"));
  ASSERT_EQ(result.diagnostics.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(result.diagnostics[i].level, severity::error);
    EXPECT_GT(result.diagnostics[i].at.line, i == 0 ? 0u : result.diagnostics[i - 1].at.line);
    EXPECT_FALSE(result.diagnostics[i].note.empty());
  }
}

}  // namespace
}  // namespace gpumem::config
