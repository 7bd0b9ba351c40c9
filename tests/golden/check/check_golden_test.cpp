// Every NAME.toml here is resolved, on a device of unknown size and on three devices, and what `gpumem check`
// says must be NAME.expected; so must what it says about the programs that CMakeLists.txt builds,
// programs.expected. UPDATE_GOLDEN=1 writes the expected files instead; read the difference before committing
// it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "shim/cli/check/check.hpp"
#include "shim/cli/programs/elf_file.hpp"

namespace gpumem::cli {
namespace {

namespace fs = std::filesystem;

fs::path const here = GPUMEM_GOLDEN_FOLDER;
fs::path const programs = GPUMEM_PROGRAMS;
constexpr std::uint64_t gib = 1ull << 30;

std::string contents(fs::path const& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::set<fs::path> files(std::string const& extension) {
  std::set<fs::path> found;
  for (auto const& entry : fs::directory_iterator(here)) {
    if (entry.path().extension() == extension) found.insert(entry.path());
  }
  return found;
}

void expect_golden(std::string const& name, std::string const& now) {
  fs::path const expected = here / (name + ".expected");
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(expected, std::ios::binary) << now;
  EXPECT_EQ(now, contents(expected)) << name << " changed; UPDATE_GOLDEN=1 accepts it";
}

void replace_all(std::string& text, std::string const& from, std::string const& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

TEST(check_golden, every_configuration_shows_what_is_expected) {
  std::vector<device> const three = {
      {0, "Large GPU", 80 * gib}, {1, "Large GPU", 80 * gib}, {2, "Small GPU", 8 * gib}};
  auto const inputs = files(".toml");
  ASSERT_GT(inputs.size(), 8u);
  for (auto const& input : inputs) {
    auto const loaded = config::load_text(input.filename().string(), contents(input));
    ASSERT_FALSE(loaded.failed()) << loaded.text(config::consequence::none);
    bool unknown = false, known = false;
    std::string const now = "--- no device here\n" + describe_plan(loaded.plan, {}, unknown) +
                            "--- three devices\n" + describe_plan(loaded.plan, three, known);
    expect_golden(input.stem().string(), now);
    EXPECT_EQ(known, now.find("\n!  ") != now.npos) << input;
  }
}

TEST(check_golden, every_trap_has_its_remedy_on_the_next_lines) {
  for (auto const& expected : files(".expected")) {
    if (expected.stem() == "programs") continue;
    std::istringstream text(contents(expected));
    bool open = false;  // a trap was begun and has no line of remedy yet
    for (std::string line; std::getline(text, line);) {
      EXPECT_TRUE(!open || line.starts_with("   ")) << expected << ": " << line;
      open = line.starts_with("!  ");
    }
    EXPECT_FALSE(open) << expected;
  }
}

TEST(check_golden, no_expected_file_is_left_over) {
  for (auto expected : files(".expected")) {
    bool const of_programs = expected.stem() == "programs";
    EXPECT_TRUE(of_programs || fs::exists(expected.replace_extension(".toml"))) << expected;
  }
}

// Files that no linker makes, beside those that CMakeLists.txt links.
class program_files : public testing::Test {
 protected:
  program_files() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    around_.search_path = programs.string() + ":" + folder_;
    around_.user = ::getuid() + 1;  // who runs it does not own it
    around_.group = ::getgid() + 1;
  }
  ~program_files() override { fs::remove_all(folder_); }

  std::string write(std::string const& name, std::string const& text, unsigned mode = 0755) {
    std::string const path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return name;
  }
  std::string plain_with(std::size_t at, char byte) const {
    std::string text = contents(programs / "plain");
    text.at(at) = byte;
    return text;
  }

  // Folders have short names before the text is broken into lines.
  std::string described(std::string const& name) const {
    interception seen = inspect(name, around_);
    seen.path = named(seen.path);
    for (auto* lines : {&seen.facts, &seen.problems}) {
      for (auto& line : *lines) line = named(line);
    }
    return describe_program(named(name), seen);
  }
  std::string named(std::string text) const {
    replace_all(text, programs.string(), "PROGRAMS");
    replace_all(text, folder_, "FOLDER");
    return text;
  }

  std::string folder_ = "/tmp/gpumem_check_XXXXXX";
  surroundings around_;
};

TEST_F(program_files, every_program_gets_what_is_expected) {
  constexpr std::size_t elf_class = 4, elf_order = 5, elf_machine = 18;
  std::string const plain = contents(programs / "plain");
  write("setuid", plain, 04755);
  write("setgid", plain, 02755);
  write("narrow", plain_with(elf_class, 1));
  write("other_order", plain_with(elf_order, 2));  // and so the machine's number is another one
  write("other_machine", plain_with(elf_machine, static_cast<char>(0xF3)));
  write("cut", plain.substr(0, 100));
  write("text", "just text\n");
  write("unexecutable", plain, 0644);
  write("script", "#!" + (programs / "shared_runtime").string() + " -x\n");
  write("env_script", "#!/usr/bin/env -S A=1 static_runtime -u\n");
  write("lost_script", "#!/usr/bin/env nowhere\n");
  write("static_script", "#!" + (programs / "static").string() + "\n");
  std::string now;
  for (char const* name : {"plain",
                           "shared_runtime",
                           "unfound_runtime",
                           "static_runtime",
                           "driver",
                           "stub",
                           "no_default_folders",
                           "static",
                           "musl",
                           "setuid",
                           "setgid",
                           "narrow",
                           "other_machine",
                           "other_order",
                           "cut",
                           "text",
                           "script",
                           "env_script",
                           "lost_script",
                           "static_script",
                           "unexecutable",
                           "nowhere"}) {
    now += described(name);
  }
  now += described(folder_ + "/absent");
  around_.preloads = "libother.so";
  around_.system_preloads = true;
  now += described("plain");
  expect_golden("programs", now);
}

TEST_F(program_files, setuid_counts_only_for_others_than_the_owner) {
  write("setuid", contents(programs / "plain"), 06755);
  EXPECT_EQ(inspect("setuid", around_).result, verdict::no);
  around_.user = ::getuid();
  around_.group = ::getgid();
  EXPECT_EQ(inspect("setuid", around_).result, verdict::unknown);
}

// Where the tests may give a file capabilities; the value is that of cap_net_raw, permitted and effective.
TEST_F(program_files, file_capabilities_count_for_all_but_root) {
  unsigned char const capability[20] = {1, 0, 0, 2, 0, 0x20};
  std::string const path = folder_ + "/" + write("capable", contents(programs / "plain"));
  if (::setxattr(path.c_str(), "security.capability", capability, sizeof capability, 0) != 0)
    GTEST_SKIP() << "no right to give a file capabilities";
  around_.user = 1000;
  EXPECT_EQ(inspect("capable", around_).result, verdict::no);
  around_.user = 0;
  EXPECT_EQ(inspect("capable", around_).result, verdict::unknown);
}

// The file is another program's: no byte of it may lead out of it.
TEST_F(program_files, a_damaged_file_is_looked_at_and_survived) {
  std::string const whole = contents(programs / "shared_runtime");
  int readable = 0;
  for (std::size_t length = 0; length < whole.size(); length += 1 + length / 16) {
    readable += elf_file(folder_ + "/" + write("cut", whole.substr(0, length))).whole;
  }
  for (std::size_t at = 16; at < 1200; at += 5) {
    std::string text = whole;
    text.at(at) = static_cast<char>(0xFF);
    readable += elf_file(folder_ + "/" + write("damaged", text)).whole;
  }
  EXPECT_GT(readable, 200);  // the damage is seen behind the first check too
  EXPECT_EQ(inspect(write("cut", whole.substr(0, 100)), around_).result, verdict::no);
}

}  // namespace
}  // namespace gpumem::cli
