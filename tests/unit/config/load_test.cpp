// A whole load: the plan that comes out, the files that cannot be read, and variables over the file.
#include "config/load.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "config/reader/file/source_file.hpp"

namespace gpumem::config {
namespace {

class folder : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/gpumem_config_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  void TearDown() override {
    for (auto const& file : files_) ::unlink(file.c_str());
    ::rmdir(path_.c_str());
  }
  std::string write(std::string const& name, std::string const& text) {
    files_.push_back(path_ + "/" + name);
    std::ofstream(files_.back(), std::ios::binary) << text;
    return files_.back();
  }
  // The text of the only error.
  std::string error_of(std::string const& file) {
    auto const result = load_file(file);
    EXPECT_TRUE(result.failed());
    EXPECT_EQ(result.diagnostics.size(), 1u);
    std::string text = result.text(consequence::not_started);
    for (auto at = text.find(path_); at != text.npos; at = text.find(path_))
      text.replace(at, path_.size(), "DIR");
    return text;
  }

  std::string path_;
  std::vector<std::string> files_;
};

std::string closing(std::string const& name) {
  return "gpumem: 1 error in " + name + "; the program was not started\n";
}

TEST_F(folder, files_that_cannot_be_read_say_why) {
  EXPECT_EQ(error_of(path_ + "/no.toml"),
            "DIR/no.toml: error[E001]: there is no such file; check the path that was given\n" +
                closing("DIR/no.toml"));
  EXPECT_EQ(error_of("no/such.toml"),
            "no/such.toml: error[E001]: there is no such file; a relative path starts at the working folder "
            "of the program\n" +
                closing("no/such.toml"));
  EXPECT_EQ(error_of(path_), "DIR: error[E002]: this is a folder; name the file in it\n" + closing("DIR"));
  EXPECT_EQ(error_of(""),
            "gpumem: error[E003]: the path of the configuration is empty; unset GPUMEM_CONFIG for the "
            "built-in default, or "
            "name a file\ngpumem: 1 error in the environment; the program was not started\n");
  EXPECT_EQ(error_of("/dev/null"),
            "/dev/null: error[E002]: this is not a regular file; copy it to a file\n" + closing("/dev/null"));
}

TEST_F(folder, a_fifo_does_not_hang) {
  std::string const fifo = path_ + "/fifo";
  files_.push_back(fifo);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(load_file(fifo).diagnostics.at(0).code, "E002");
}

TEST_F(folder, an_unreadable_file_says_so) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  auto const file = write("secret.toml", "version = 1\n");
  ASSERT_EQ(::chmod(file.c_str(), 0), 0);
  EXPECT_EQ(load_file(file).diagnostics.at(0).code, "E002");
}

TEST_F(folder, a_huge_file_is_refused_and_the_largest_is_read) {
  EXPECT_EQ(error_of(write("huge.toml", std::string(10 << 20, '#'))),
            "DIR/huge.toml: error[E004]: the file holds 10.00 MiB, more than the limit of 256 KiB; is it a "
            "configuration?\n" +
                closing("DIR/huge.toml"));
  std::string largest = "version = 1\n";
  largest.resize(largest_file, '#');
  EXPECT_FALSE(load_file(write("largest.toml", largest)).failed());
  EXPECT_TRUE(load_file(write("larger.toml", largest + "#")).failed());
}

TEST(load, without_a_file_the_default_is_a_pool_over_cuda) {
  auto const result = load(environment{});
  EXPECT_TRUE(result.diagnostics.empty());
  EXPECT_EQ(result.plan.path, "");
  EXPECT_EQ(result.plan.device.chain, (std::vector<std::string>{"pool", "cuda"}));
  EXPECT_FALSE(result.plan.device.passthrough);
  EXPECT_TRUE(result.plan.managed.passthrough);
  EXPECT_TRUE(result.plan.host.passthrough);
  EXPECT_EQ(result.plan.report_text, "stderr");
  EXPECT_EQ(result.plan.report_json, "");
  EXPECT_EQ(result.plan.log_level, "warn");
  EXPECT_EQ(result.plan.free, free_mode::deferred);
  EXPECT_EQ(result.plan.device.where.text, "default");
  auto const* const pool = result.plan.find("pool", 3);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(std::get<std::string>(pool->options.at("growth")), "auto");
  EXPECT_EQ(std::get<size_value>(pool->options.at("initial_pool_size")).bytes, 0u);
  EXPECT_FALSE(pool->options.contains("maximum_pool_size"));
}

constexpr char const* two_devices = R"(version = 1
[route]
device = ["binning", "pool", "cuda"]
[resource.pool]
maximum_pool_size = "8 GiB"
growth = 1048576
[resource.binning]
min_size_exponent = 10
max_size_exponent = 12
[device.1]
pool.maximum_pool_size = "10 % of total"
binning.bins = [ { max = "1 MiB", to = "pool" } ]
[behavior]
free = "synchronize"
on_config_error = "passthrough"
[report]
json = "r.json"
)";

TEST(load, each_device_sees_its_own_values_and_the_common_rest) {
  auto const result = load_text("two.toml", two_devices);
  ASSERT_TRUE(result.diagnostics.empty()) << result.text(consequence::none);
  auto const& common = *result.plan.find("pool", 0);
  auto const& first = *result.plan.find("pool", 1);
  EXPECT_EQ(std::get<size_value>(common.options.at("maximum_pool_size")).bytes, 8ULL << 30);
  EXPECT_EQ(std::get<size_value>(first.options.at("maximum_pool_size")).kind,
            size_value::unit::percent_of_total);
  EXPECT_EQ(std::get<size_value>(first.options.at("growth")).bytes, 1048576u);
  EXPECT_EQ(common.origins.at("maximum_pool_size").text, "two.toml:5:21");
  EXPECT_EQ(first.origins.at("maximum_pool_size").text, "two.toml:11:26");
  EXPECT_EQ(first.origins.at("release_threshold").text, "default");

  auto const bins = [&](int device) {
    return std::get<std::vector<bin>>(result.plan.find("binning", device)->options.at("bins"));
  };
  ASSERT_EQ(bins(0).size(), 3u);
  EXPECT_EQ(bins(0)[2].max, 4096u);
  ASSERT_EQ(bins(1).size(), 1u);
  EXPECT_EQ(bins(1)[0].to, "pool");
  EXPECT_FALSE(result.plan.find("binning", 1)->options.contains("min_size_exponent"));
  EXPECT_EQ(result.plan.free, free_mode::synchronize);
  EXPECT_NE(result.plan.text.find("free = \"synchronize\""), std::string::npos);
  EXPECT_EQ(result.plan.error_policy, on_error::passthrough);
}

TEST(load, the_effective_configuration_reads_back_to_itself) {
  auto const first = load_text("x", two_devices);
  auto const second = load_text("x", first.plan.text);
  ASSERT_TRUE(second.diagnostics.empty()) << second.text(consequence::none);
  auto const without_origins = [](std::string const& text) {
    std::string result;
    for (std::size_t begin = 0; begin < text.size();) {
      auto const end = text.find('\n', begin);
      auto const line = text.substr(begin, end - begin);
      result += line.substr(0, line.find(" # ")) + "\n";
      begin = end + 1;
    }
    return result;
  };
  EXPECT_EQ(without_origins(second.plan.text), without_origins(first.plan.text));
}

TEST_F(folder, variables_come_before_the_file) {
  environment variables;
  variables.config = write("two.toml", two_devices);
  variables.report = "none";
  variables.json = "none";
  variables.error_policy = on_error::abort;
  variables.log_level = "trace";
  variables.other_log_level = "info";
  variables.log_file = "l.%p";
  auto const result = load(variables);
  ASSERT_TRUE(result.diagnostics.empty());
  EXPECT_EQ(result.plan.report_text, "none");
  EXPECT_EQ(result.plan.report_json, "");
  EXPECT_EQ(result.plan.error_policy, on_error::abort);
  EXPECT_EQ(result.plan.log_level, "trace");
  EXPECT_EQ(result.plan.log_file, "l.%p");
  EXPECT_EQ(result.plan.origins.at("log.level").text, "GPUMEM_LOG");
  EXPECT_EQ(result.plan.origins.at("report.text").text, "GPUMEM_REPORT");
  EXPECT_EQ(result.plan.path, *variables.config);
}

TEST(load, the_error_policy_of_a_wrong_file_is_obeyed) {
  auto const result = load_text(
      "x", "version = 1\n[route]\ndevice = [\"pol\"]\n[behavior]\non_config_error = \"passthrough\"\n");
  EXPECT_TRUE(result.failed());
  EXPECT_EQ(result.plan.error_policy, on_error::passthrough);
  EXPECT_TRUE(result.text(consequence::passthrough)
                  .ends_with("gpumem: 1 error in x; the program runs without gpumem\n"));
}

TEST(load, warnings_are_kept_for_the_report_and_are_no_failure) {
  auto const result = load_text("x", "version = 1\n[route]\ndevice = [\"cuda\"]\n[resource.pool]\n");
  EXPECT_FALSE(result.failed());
  ASSERT_EQ(result.plan.warnings.size(), 1u);
  EXPECT_NE(result.plan.warnings[0].find("W501"), std::string::npos);
}

TEST(load, dotted_text_in_strings_and_comments_is_no_deep_key) {
  std::string const dots(200, '.');
  EXPECT_FALSE(load_text("x", "version = 1 # " + dots + "\n[report]\njson = \"a" + dots + "b\"\n").failed());
  EXPECT_FALSE(load_text("x", "version = 1\n[report]\njson = '''" + dots + "'''\n").failed());
}

}  // namespace
}  // namespace gpumem::config
