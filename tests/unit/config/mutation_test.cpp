// Damaged examples under a fixed seed: the reader never crashes, and gives a plan or an error inside the
// file.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "config/load.hpp"

namespace gpumem::config {
namespace {

std::vector<std::string> examples() {
  std::vector<std::filesystem::path> paths;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(GPUMEM_CONFIG_FOLDER "/examples")) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (auto const& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

constexpr std::string_view pieces[] = {"\"",
                                       "'",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       "=",
                                       ".",
                                       ",",
                                       "\n",
                                       "#",
                                       "-",
                                       "%",
                                       "0",
                                       "99999999999999999999",
                                       "\xff",
                                       "\xc2\x9b",
                                       "\xE2\x82\xAC",
                                       "\\",
                                       "\\u0000",
                                       " = ",
                                       "[[rule]]\n",
                                       "\"\"\"",
                                       "'''",
                                       "pool",
                                       "[resource.pool]\n",
                                       "[device.1]\n",
                                       "pool.growth = 0\n",
                                       "binning",
                                       "to = \"pool\"",
                                       "true",
                                       "1.5",
                                       "1979-05-27",
                                       "\r",
                                       "\t",
                                       "inf",
                                       "nan",
                                       "\"50 % of free\"",
                                       "\"70 G\"",
                                       "version = 1\n"};

class mutator {
 public:
  explicit mutator(unsigned seed) : random_(seed) {}

  std::string operator()(std::vector<std::string> const& texts) {
    std::string text = texts[below(texts.size())];
    for (std::size_t count = 1 + below(6); count != 0; --count) mutate(text, texts);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void mutate(std::string& text, std::vector<std::string> const& texts) {
    std::size_t const at = below(text.size());
    switch (below(7)) {
      case 0:
        text.erase(at, 1 + below(8));
        break;
      case 1:
        text.insert(at, pieces[below(std::size(pieces))]);
        break;
      case 2:
        if (!text.empty()) text[at] = static_cast<char>(random_());
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, text.substr(below(text.size()), below(80)));
        break;
      case 5:
        text.insert(at, texts[below(texts.size())].substr(below(200), below(200)));
        break;
      default:
        swap_lines(text);
        break;
    }
  }

  void swap_lines(std::string& text) {
    auto const end = text.find('\n', below(text.size()));
    if (end != text.npos) text = text.substr(end + 1) + text.substr(0, end + 1);
  }

  std::mt19937 random_;
};

void expect_inside(diagnostic const& item, std::string const& text) {
  auto const lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  EXPECT_GE(item.at.line, 1u) << item.text;
  EXPECT_LE(item.at.line, lines) << item.text;
  EXPECT_GE(item.at.column, 1u);
  EXPECT_LE(item.at.column, text.size() + 1);
}

TEST(mutation, damaged_examples_give_a_plan_or_positioned_errors) {
  auto const texts = examples();
  mutator mutate(20240517);
  std::size_t failed = 0;
  constexpr std::size_t rounds = 6000;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::string const text = mutate(texts);
    auto const result = load_text("x", text);
    for (auto const& item : result.diagnostics) expect_inside(item, text);
    std::string const shown = result.text(consequence::not_started);
    for (char c : shown) {
      if (c != '\n' && static_cast<unsigned char>(c) < 0x20)
        ADD_FAILURE() << "a control character in a message";
    }
    if (result.failed()) {
      ++failed;
    } else {
      auto const again = load_text("x", result.plan.text);
      EXPECT_FALSE(again.failed()) << text << "\n" << result.plan.text << again.text(consequence::none);
    }
    if (HasFailure()) FAIL() << "round " << round << ":\n" << text;
  }
  // Both ways must be taken often, or this tests nothing.
  EXPECT_GT(failed, rounds / 4);
  EXPECT_LT(failed, rounds - rounds / 100);
}

}  // namespace
}  // namespace gpumem::config
