// The reports of the sample snapshots, text and JSON, as files; and what must hold for each of them: width,
// printable characters, rows that add up, JSON without duplicate keys, and the same text again from the JSON.
#include <gtest/gtest.h>
#include <regex.h>  // libc's: std::regex takes 15 s to compile under sanitizers

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

#include "core/report/document.hpp"
#include "core/report/glossary.hpp"
#include "core/report/output/text.hpp"
#include "core/report/output/text_format.hpp"
#include "tests/golden/report/sample_snapshots.hpp"

namespace gpumem::report {
namespace {

// A POSIX extended regular expression.
class pattern {
 public:
  explicit pattern(char const* text) { EXPECT_EQ(::regcomp(&compiled_, text, REG_EXTENDED), 0) << text; }
  ~pattern() { ::regfree(&compiled_); }
  pattern(pattern const&) = delete;
  pattern& operator=(pattern const&) = delete;

  // The match and its groups; empty without one.
  std::vector<std::string> find_in(std::string const& line) const {
    std::vector<regmatch_t> at(compiled_.re_nsub + 1);
    if (::regexec(&compiled_, line.c_str(), at.size(), at.data(), 0) != 0) return {};
    std::vector<std::string> found;
    for (auto const& [begin, end] : at) {
      found.push_back(begin < 0 ? "" : line.substr(std::size_t(begin), std::size_t(end - begin)));
    }
    return found;
  }

 private:
  regex_t compiled_{};
};

class golden_report : public testing::TestWithParam<sample> {
 protected:
  document const content_ = make_document(GetParam().content, GetParam().options);
  std::string const text_ = render_text(content_, {false, false, GetParam().json_path});
  std::string const json_ = content_.dump(1, ' ', false, document::error_handler_t::replace) + "\n";

  static void expect_same(std::string const& file, std::string const& got) {
    std::string const path = std::string(GPUMEM_GOLDEN_FOLDER "/") + file;
    if (std::getenv("UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path) << got;
      return;
    }
    std::ifstream in(path);
    ASSERT_TRUE(in.good()) << path;
    std::string const expected((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_EQ(got, expected) << "UPDATE_GOLDEN=1 writes " << path << " anew";
  }
};

TEST_P(golden_report, text) {
  expect_same(GetParam().name + ".txt", text_);
}
TEST_P(golden_report, json) {
  expect_same(GetParam().name + ".json", json_);
}

TEST_P(golden_report, text_is_narrow_and_printable) {
  pattern const negative("[ =]-[0-9]");
  std::istringstream lines(text_);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), page_width) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
    for (char letter : line) {
      EXPECT_TRUE(static_cast<unsigned char>(letter) >= ' ') << line;
    }
    EXPECT_TRUE(negative.find_in(line).empty()) << "negative: " << line;
  }
}

TEST_P(golden_report, no_line_is_wider_than_the_terminal) {
  for (std::size_t width : {80u, 85u, 95u, 96u, 120u}) {
    text_options look{false, false, GetParam().json_path};
    look.width = width;
    std::istringstream lines(render_text(content_, look));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
    look.utf8 = true;  // the same lines, with longer letters
    look.json_path = GetParam().json_path;
    std::string const curves = render_text(content_, look);
    look.utf8 = false;
    std::string const plain = render_text(content_, look);
    EXPECT_EQ(std::count(curves.begin(), curves.end(), '\n'), std::count(plain.begin(), plain.end(), '\n'))
        << curves;
  }
}

TEST_P(golden_report, json_has_no_duplicate_keys) {
  std::vector<std::set<std::string>> open;
  auto const watch = [&open](int, document::parse_event_t event, document& parsed) {
    if (event == document::parse_event_t::object_start) open.emplace_back();
    if (event == document::parse_event_t::object_end) open.pop_back();
    if (event == document::parse_event_t::key) {
      EXPECT_TRUE(open.back().insert(parsed.get<std::string>()).second) << "twice: " << parsed;
    }
    return true;
  };
  EXPECT_FALSE(document::parse(json_, watch).is_discarded());
}

TEST_P(golden_report, the_json_gives_the_same_text) {
  document const again = document::parse(json_);
  std::string text = render_text(again, {false, false, GetParam().json_path});
  // A byte of the program's name that is no UTF-8 is replaced in the JSON; nothing else may differ.
  std::string expected = text_;
  for (std::string* each : {&text, &expected}) {
    ASSERT_LT(each->find("   pid"), each->find('\n')) << *each;
    each->erase(0, each->find("   pid"));
  }
  EXPECT_EQ(text, expected);
}

// "  + rounding    0.01 GiB    1.02 GiB": the printed figures themselves must add up, to the last digit.
TEST_P(golden_report, printed_ledgers_add_up) {
  std::istringstream lines(text_);
  pattern const row(
      "^  ([ +=-]) [a-z].{35} *(-|[0-9,]+(\\.[0-9]+)?) ?([GMK]i)?B?( +(-|[0-9,]+(\\.[0-9]+)?))?");
  auto const value = [](std::string text) {
    text.erase(std::remove(text.begin(), text.end(), ','), text.end());
    text.erase(std::remove(text.begin(), text.end(), '.'), text.end());
    return text.empty() || text == "-" ? 0ll : std::stoll(text);
  };
  long long sums[2] = {0, 0};
  int equations = 0;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("DEVICE")) {
      inside = true;
      sums[0] = sums[1] = 0;
      continue;
    }
    if (line.empty()) inside = false;
    if (!inside) continue;
    std::vector<std::string> const parts = row.find_in(line);
    if (parts.empty()) continue;
    for (int i = 0; i < 2; ++i) {
      std::string const& figure = parts[i == 0 ? 2 : 6];
      long long const printed = value(figure);
      if (parts[1] != "=") {
        sums[i] += parts[1] == "-" ? -printed : printed;
      } else if (figure != "-") {
        EXPECT_EQ(sums[i], printed) << line;
        ++equations;
      }
    }
  }
  EXPECT_GE(equations, static_cast<int>(GetParam().content.devices.size()));
}

TEST(golden_report_rules, each_ledger_word_is_explained) {
  std::set<std::string_view> terms;
  for (auto const& entry : glossary) {
    for (std::string_view rest = entry.name; !rest.empty();) {
      std::string_view const name = rest.substr(0, rest.find('|'));
      EXPECT_TRUE(terms.insert(name).second) << name;
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
  }
  for (char const* word : {"requested", "rounding", "pending", "cached", "reserved", "unseen", "in use",
                           "free", "seen", "elsewhere", "overhead", "fragmentation", "peak", "attempts",
                           "still allocated", "hits", "upstream", "out of memory"}) {
    EXPECT_TRUE(terms.contains(word)) << word;
  }
}

TEST(golden_report_rules, all_sections_agree_on_when_the_report_was_written) {
  auto const all = sample_snapshots();
  auto const with_all = std::ranges::find(all, "two_devices", &sample::name);
  ASSERT_NE(with_all, all.end());
  document content = make_document(with_all->content, with_all->options);
  content["findings"] = document::array();
  std::pair<char const*, std::string> const kinds[] = {{"exit", "at exit"},
                                                       {"running", "now"},
                                                       {"signal", "at the end"},
                                                       {"exec", "at the end"},
                                                       {"unknown", "at the end"}};
  for (auto const& [kind, when] : kinds) {
    content["end"]["kind"] = kind;
    std::string const text = render_text(content, {});
    for (std::string const title :
         {"\nDEVICE 1", "\nWHO device 1", "\nCATEGORIES device 1", "\nWHERE device 1"}) {
      std::size_t const at = text.find(title);
      ASSERT_NE(at, text.npos) << title << text;
      std::size_t const begin = title.find("CATEGORIES") == 1 ? text.find('\n', at + 1) : at;
      EXPECT_NE(text.substr(begin, text.find('\n', begin + 1) - begin).find(" " + when), text.npos)
          << kind << title;
    }
  }
}

TEST(golden_report_rules, a_small_program_fits_one_screen) {
  auto const all = sample_snapshots();
  auto const small = std::ranges::find(all, "small", &sample::name);
  ASSERT_NE(small, all.end());
  std::string const text = render_text(make_document(small->content, small->options), {});
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 40) << text;
  for (char const* silent : {"CATEGORIES", "WHERE", "LEAKS", "MISUSE", "FAILURES", "RULES"})
    EXPECT_EQ(text.find(silent), text.npos) << silent << " says nothing here: " << text;
}

TEST(golden_report_rules, a_senseless_document_is_rendered_without_a_crash) {
  for (char const* text :
       {"{}", "[]", "null", R"({"devices": 7, "timeline": [{"t": 1}], "process": {"argv": {}}})",
        R"({"devices": [1, {"now": []}], "intercept": {"hooks": [null, 3]}, "chains": [{"nodes": [1]}]})",
        R"({"timeline": [{"t": [1, "x", -3], "requested": {}}], "sizes": [1], "failures": [{}],
                               "findings": [1], "end": {"kind": 3, "signal": 99999999999}})"}) {
    EXPECT_FALSE(render_text(document::parse(text), {true, true, {}}).empty()) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(samples, golden_report, testing::ValuesIn(sample_snapshots()),
                         [](auto const& which) { return which.param.name; });

}  // namespace
}  // namespace gpumem::report
