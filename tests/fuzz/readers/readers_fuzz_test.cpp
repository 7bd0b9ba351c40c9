// Damaged input for everything that the program gpumem reads and did not write itself: state pages, JSON
// reports, programs (`check --`), files that a page names (`report`), configurations, and what a symbolizer
// prints. The verbs themselves run, each batch in a child, so that a crash, a sanitizer's fault or a hang
// names its seed. GPUMEM_TEST_INPUTS: how many of each kind (150); GPUMEM_TEST_SEED: the first. An input is
// bad when the exit code is none of gpumem's, when it takes more than ten seconds, or when a control
// character comes out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "core/base/text/printable.hpp"
#include "core/report/document.hpp"
#include "core/report/names/elf_symbols.hpp"
#include "shim/cli/check/check.hpp"
#include "shim/cli/recommend/recommend.hpp"
#include "shim/cli/report/report.hpp"
#include "tests/fuzz/readers/mutator.hpp"
#include "tests/fuzz/readers/seeds.hpp"
#include "tests/unit/recording/memory_file.hpp"

namespace gpumem::tests {
namespace {

std::uint64_t from_environment(char const* name, std::uint64_t preset) {
  char const* const value = std::getenv(name);
  return value == nullptr ? preset : std::strtoull(value, nullptr, 10);
}

class readers : public testing::Test {
 protected:
  readers() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seed_ = static_cast<std::uint64_t*>(shared);
  }
  void SetUp() override { ::setenv("PATH", "/nonexistent", 1); }
  ~readers() override { std::filesystem::remove_all(folder_); }

  std::string path(char const* name) const { return folder_ + "/" + name; }
  // Whatever a report asks about source lines answers so.
  void set_symbolizer(char const* program) const {
    for (char const* name : {"llvm-symbolizer", "addr2line"}) {
      write(path(name), program);
      ::chmod(path(name).c_str(), 0755);
    }
    ::setenv("PATH", (folder_ + ":/usr/bin:/bin").c_str(), 1);
  }

  // `one` damages and reads by one seed; its result is a verb's exit code.
  void run(std::function<int(mutator&)> const& one) {
    std::uint64_t const first = from_environment("GPUMEM_TEST_SEED", 1);
    std::uint64_t const last = first + from_environment("GPUMEM_TEST_INPUTS", 150);
    unsigned bad = 0;
    *seed_ = first;
    while (*seed_ < last && bad < 10) {
      pid_t const child = ::fork();
      if (child == 0) batch(one, last);
      int status = 0;
      ::waitpid(child, &status, 0);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      ++bad;
      ADD_FAILURE() << "GPUMEM_TEST_SEED=" << *seed_ << ": status " << status << "\n"
                    << base::printable_lines(contents(path("out")).substr(0, 3000));
      ++*seed_;
    }
    std::printf("%llu inputs, %u bad\n", static_cast<unsigned long long>(*seed_ - first), bad);
  }

 private:
  [[noreturn]] void batch(std::function<int(mutator&)> const& one, std::uint64_t last) {
    int const out = ::open(path("out").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    for (int in_batch = 0; *seed_ < last && in_batch < 200; ++in_batch) {
      ::alarm(10);
      if (::ftruncate(out, 0) != 0) ::_exit(3);
      ::lseek(out, 0, SEEK_SET);
      mutator by(*seed_);
      int const code = one(by);
      std::string const printed = contents(path("out"));
      if (code < 0 || code > 2) ::_exit(4);
      if (printed.size() > (8u << 20)) ::_exit(5);
      if (printed != base::printable_lines(printed)) ::_exit(6);
      ++*seed_;
    }
    ::_exit(0);
  }

  std::string folder_ = "/tmp/gpumem_readers_XXXXXX";
  std::uint64_t* seed_;
};

// The page is sparse and large: it is damaged in place, and mended after each.
TEST_F(readers, page) {
  ASSERT_EQ(::mkdir(path("state").c_str(), 0700), 0);
  std::string const page = make_page(path("state"));
  std::string const good = contents(page);
  ASSERT_GT(good.size(), 100'000u);
  std::vector<std::uint64_t> used;
  std::string const unused(8, '\0');
  for (std::uint64_t at = 0; at < good.size(); at += 8) {
    if (good.compare(at, 8, unused) != 0) used.push_back(at);
  }
  run([&](mutator& by) {
    std::vector<edit> edits;
    int const file = ::open(page.c_str(), O_RDWR | O_CLOEXEC);
    for (std::size_t count = 1 + by.below(by.below(4) == 0 ? 40 : 4); count != 0; --count) {
      std::uint64_t const at = by.below(4) == 0 ? by.below(33'000) : by.one_of(used) + by.below(8);
      edits.push_back(by.overwrite(at, good.size(), std::string_view(good).substr(at, 8)));
      auto const& made = edits.back();
      if (::pwrite(file, made.bytes.data(), made.bytes.size(), static_cast<off_t>(made.offset)) < 0) return 9;
    }
    bool const cut = by.below(20) == 0;
    if (cut && ::ftruncate(file, static_cast<off_t>(by.below(good.size()))) != 0) return 9;
    int const code = cli::report({.files = {page}, .json = by.below(3) == 0, .term = {}});
    if (cut) write(page, good);
    for (auto const& made : edits) {
      std::string_view const old = std::string_view(good).substr(made.offset, made.bytes.size());
      if (::pwrite(file, old.data(), old.size(), static_cast<off_t>(made.offset)) < 0) return 9;
    }
    ::close(file);
    return code;
  });
}

TEST_F(readers, json) {
  ASSERT_EQ(::mkdir(path("state").c_str(), 0700), 0);
  std::vector<std::string> const good{json_of(make_page(path("state")))};
  ASSERT_GT(good.front().size(), 1000u);
  run([&](mutator& by) {
    write(path("report.json"), by.damaged(good.front(), good));
    return cli::report({.files = {path("report.json")}, .json = by.below(3) == 0, .term = {}});
  });
}

TEST_F(readers, recommend) {
  ASSERT_EQ(::mkdir(path("state").c_str(), 0700), 0);
  std::vector<std::string> const good{json_of(make_page(path("state")))};
  run([&](mutator& by) {
    write(path("report.json"), by.damaged(good.front(), good));
    return cli::recommend(path("report.json"), 0);
  });
}

TEST_F(readers, recording) {
  recording::memory_file good;
  recording::no_names names;
  recording::random_events random(7);
  auto const made = std::make_unique<recording::encoder>(good, names, 0);
  for (int i = 0; i < 3000; ++i) {
    made->add(random.next());
    if (i % 500 == 0) made->commit(random.stamp() + 1);
  }
  made->finish(random.stamp() + 1);
  good.save(path("recording"), 0);
  std::vector<std::string> const whole{contents(path("recording"))};
  ASSERT_GT(whole.front().size(), 20'000u);
  run([&](mutator& by) {
    write(path("recording"), by.damaged(whole.front(), whole));
    return cli::recommend(path("recording"), by.below(2) << 30);
  });
}

TEST_F(readers, elf) {
  std::vector<std::string> const good{contents("/bin/true"), contents("/bin/ls")};
  run([&](mutator& by) {
    std::string text = by.one_of(good);
    std::size_t const size = text.size();
    for (std::size_t count = 1 + by.below(6); count != 0; --count) {
      std::size_t const within[] = {64, 64 + 56 * 13, 0x1200, size};
      std::size_t const at = by.below(by.one_of(within));
      edit const made = by.overwrite(at, size, std::string_view(text).substr(at));
      text.replace(made.offset, made.bytes.size(), made.bytes);
    }
    if (by.below(10) == 0) text.resize(by.below(size));
    write(path("program"), text);
    ::chmod(path("program").c_str(), 0755);
    return cli::check({.file = {}, .device_memory = "8 GiB", .command = {path("program")}});
  });
}

// What a page calls the file of an address may be anything by now.
TEST_F(readers, symbols) {
  std::string const good = contents("/bin/ls");
  std::uint64_t sections = 0;
  std::memcpy(&sections, good.data() + 40, sizeof sections);  // e_shoff
  run([&](mutator& by) {
    std::string text = good;
    for (std::size_t count = 1 + by.below(6); count != 0; --count) {
      bool const late = by.below(2) == 0 && sections < text.size();
      std::size_t const at = late ? sections + by.below(text.size() - sections) : by.below(64 + 56 * 13);
      edit const made = by.overwrite(at, text.size(), std::string_view(text).substr(at));
      text.replace(made.offset, made.bytes.size(), made.bytes);
    }
    write(path("library"), text);
    auto const places = report::find_places(path("library"), {1, 0x1000, 0x4010, 0x8000, ~0ull});
    return places.size() > 5 ? 9 : 0;
  });
}

TEST_F(readers, toml) {
  auto const good = configurations();
  run([&](mutator& by) {
    write(path("chain.toml"), by.damaged(by.one_of(good), good));
    return cli::check({.file = path("chain.toml"), .device_memory = "8 GiB", .command = {}});
  });
}

TEST_F(readers, symbolizer) {
  ASSERT_EQ(::mkdir(path("state").c_str(), 0700), 0);
  auto document = report::document::parse(json_of(make_page(path("state"))));
  ASSERT_FALSE(document["call_sites"].empty());
  std::string lines;
  for (std::size_t i = 0; i < 300; ++i) lines += "function(int)\n/a/file.cpp:" + std::to_string(i) + "\n";
  write(path("report.json"), document.dump());
  set_symbolizer(("#!/bin/sh\nexec cat " + path("answer") + "\n").c_str());
  std::vector<std::string> const good{lines};
  run([&](mutator& by) {
    write(path("answer"),
          by.damaged(lines.substr(0, lines.size() - by.below(2) * by.below(lines.size())), good));
    return cli::report({.files = {path("report.json")}, .json = by.below(3) == 0, .term = {}});
  });
}

}  // namespace
}  // namespace gpumem::tests
