// The variables: what they set, and that neither a misspelt name nor a bad value stays unsaid.
#include "config/reader/environment.hpp"

#include <gtest/gtest.h>

#include "config/load.hpp"

namespace gpumem::config {
namespace {

environment with(std::vector<char const*> variables) {
  variables.push_back(nullptr);
  return read_environment(variables.data());
}

TEST(environment, reads_every_variable) {
  auto const e = with({"PATH=/bin", "GPUMEM_CONFIG=a.toml", "GPUMEM_REPORT=none", "GPUMEM_JSON=r.%p.json",
                       "GPUMEM_LOG_LEVEL=debug", "GPUMEM_ON_ERROR=passthrough", "GPUMEM_DISABLE=1",
                       "GPUMEM_STATE_DIR=/s", "GPUMEM_RUN_ID=7"});
  EXPECT_TRUE(e.diagnostics.empty());
  EXPECT_EQ(e.config, "a.toml");
  EXPECT_EQ(e.report, "none");
  EXPECT_EQ(e.json, "r.%p.json");
  EXPECT_EQ(e.other_log_level, "debug");
  EXPECT_EQ(e.error_policy, on_error::passthrough);
  EXPECT_TRUE(e.disabled);
  EXPECT_EQ(e.state_dir, "/s");
  EXPECT_EQ(e.run_id, "7");
}

TEST(environment, warns_of_a_misspelt_name_only) {
  auto const e = with({"GPUMEM_CONFG=a.toml", "GPUMEM_SIMULATED_DEVICES=2", "GPUMEMORY=1", "gpumem_config=1",
                       "GPUMEM_CONFIG"});
  ASSERT_EQ(e.diagnostics.size(), 1u);
  EXPECT_EQ(render(e.diagnostics[0]),
            "gpumem: environment: warning[W510]: \"GPUMEM_CONFG\" is not a variable of gpumem; did you mean "
            "GPUMEM_CONFIG?\n");
  EXPECT_FALSE(e.config);
}

TEST(environment, a_bad_value_is_an_error) {
  auto const e = with({"GPUMEM_ON_ERROR=abrt", "GPUMEM_LOG_LEVEL=loud", "GPUMEM_DISABLE=perhaps",
                       "GPUMEM_JSON=%z", "GPUMEM_REPORT="});
  ASSERT_EQ(e.diagnostics.size(), 5u);
  for (auto const& item : e.diagnostics) {
    EXPECT_EQ(item.code, "E511");
    EXPECT_EQ(item.level, severity::error);
  }
  EXPECT_EQ(render(e.diagnostics[0]),
            "gpumem: environment: error[E511]: GPUMEM_ON_ERROR = \"abrt\" is unknown; did you mean "
            "\"abort\"?  known values: "
            "abort, passthrough\n");
  auto const result = load(e);
  EXPECT_TRUE(result.failed());
  EXPECT_TRUE(result.text(consequence::not_started)
                  .ends_with("gpumem: 5 errors in the environment; the program was not started\n"));
}

TEST(environment, an_empty_value_is_none) {
  auto const e = with(
      {"GPUMEM_CONFIG=", "GPUMEM_JSON=", "GPUMEM_RECORD=", "GPUMEM_PHASES=", "GPUMEM_LOG=",
       "GPUMEM_LOG_LEVEL=", "GPUMEM_ON_ERROR=", "GPUMEM_DISABLE=", "GPUMEM_STATE_DIR=", "GPUMEM_RUN_ID="});
  EXPECT_TRUE(e.diagnostics.empty());
  EXPECT_FALSE(e.config || e.json || e.record || e.phases || e.log_level || e.log_file || e.other_log_level ||
               e.error_policy || e.disabled || e.state_dir || e.run_id);
}

TEST(environment, log_is_a_level_and_a_file) {
  auto const level = with({"GPUMEM_LOG=debug", "GPUMEM_LOG_LEVEL=off"});
  EXPECT_TRUE(level.diagnostics.empty());
  EXPECT_EQ(level.log_level, "debug");
  EXPECT_FALSE(level.log_file);
  EXPECT_EQ(load(level).plan.log_level, "debug");
  auto const both = with({"GPUMEM_LOG=info:log.%p"});
  EXPECT_EQ(both.log_level, "info");
  EXPECT_EQ(both.log_file, "log.%p");
  auto const file = with({"GPUMEM_LOG=:/tmp/a:b"});
  EXPECT_FALSE(file.log_level);
  EXPECT_EQ(file.log_file, "/tmp/a:b");
  auto const none = with({"GPUMEM_LOG="});
  EXPECT_FALSE(none.log_level || none.log_file);
}

TEST(environment, a_bad_log_is_an_error) {
  auto const of = [](char const* variable) {
    auto const e = with({variable});
    return e.diagnostics.size() == 1 ? render(e.diagnostics[0]) : "";
  };
  EXPECT_EQ(of("GPUMEM_LOG=warning"),
            "gpumem: environment: error[E511]: GPUMEM_LOG = \"warning\" is unknown; known values: off, "
            "error, warn, "
            "info, debug, trace\n");
  EXPECT_EQ(
      of("GPUMEM_LOG=info:"),
      "gpumem: environment: error[E511]: GPUMEM_LOG: the file name is empty; write \"stderr\" for no file\n");
  EXPECT_EQ(of("GPUMEM_LOG=info:stdout"),
            "gpumem: environment: error[E511]: GPUMEM_LOG: \"stdout\" is the program's own output; write "
            "\"stderr\" or "
            "the name of a file\n");
}

TEST(environment, disable_takes_the_usual_words) {
  for (char const* yes :
       {"GPUMEM_DISABLE=1", "GPUMEM_DISABLE=true", "GPUMEM_DISABLE=yes", "GPUMEM_DISABLE=on"}) {
    char const* const variables[] = {"A=b", yes, nullptr};
    EXPECT_TRUE(is_disabled(variables)) << yes;
    EXPECT_TRUE(with({yes}).disabled) << yes;
  }
  for (char const* no : {"GPUMEM_DISABLE=0", "GPUMEM_DISABLE=", "GPUMEM_DISABLE=off", "GPUMEM_DISABLED=1"}) {
    char const* const variables[] = {no, nullptr};
    EXPECT_FALSE(is_disabled(variables)) << no;
    EXPECT_FALSE(with({no}).disabled) << no;
  }
  EXPECT_FALSE(is_disabled(nullptr));
}

}  // namespace
}  // namespace gpumem::config
