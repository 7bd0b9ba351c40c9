// Each example loads without a word, says that it is complete, and is what its name promises.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "config/load.hpp"

namespace gpumem::config {
namespace {

std::string path_of(std::string const& name) {
  return GPUMEM_CONFIG_FOLDER "/examples/" + name + ".toml";
}

load_result example(std::string const& name) {
  auto result = load_file(path_of(name));
  EXPECT_TRUE(result.diagnostics.empty()) << result.text(consequence::none);
  return result;
}

TEST(examples, all_load_without_a_diagnostic) {
  std::set<std::string> found;
  std::filesystem::path const folder = GPUMEM_CONFIG_FOLDER "/examples";
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    std::string const name = entry.path().lexically_relative(folder).replace_extension().string();
    found.insert(name);
    example(name);
  }
  for (char const* name :
       {"default", "pool_over_cuda_async", "pytorch_binning", "limits", "debug", "nccl_native", "cudnn_arena",
        "large_native", "spill", "compact", "compact_vmm", "rmm/cuda_async", "rmm/arena"}) {
    EXPECT_TRUE(found.contains(name)) << name;
  }
}

TEST(examples, default_is_the_built_in_default) {
  auto const file = example("default").plan;
  auto const built_in = load(environment{}).plan;
  EXPECT_EQ(file.device.chain, built_in.device.chain);
  EXPECT_EQ(file.managed.passthrough, built_in.managed.passthrough);
  EXPECT_EQ(file.host.passthrough, built_in.host.passthrough);
  EXPECT_EQ(file.free, built_in.free);
  EXPECT_EQ(file.error_policy, built_in.error_policy);
  EXPECT_EQ(file.report_text, built_in.report_text);
  EXPECT_EQ(file.report_json, built_in.report_json);
  auto const options = [](plan const& of) {
    std::set<std::string> names;
    for (auto const& [name, value] : of.find("pool", 0)->options) names.insert(name);
    return names;
  };
  EXPECT_EQ(options(file), options(built_in));
}

TEST(examples, bins_of_the_pytorch_example_fit) {
  auto const plan = example("pytorch_binning").plan;
  auto const& bins = std::get<std::vector<bin>>(plan.find("binning", 0)->options.at("bins"));
  ASSERT_EQ(bins.size(), 6u);
  EXPECT_EQ(bins[1].to, "small");
  EXPECT_EQ(std::get<size_value>(plan.find("small", 0)->options.at("block_size")).bytes, bins[1].max);
  EXPECT_EQ(std::get<std::int64_t>(plan.find("small", 0)->options.at("blocks_to_preallocate")) * 256,
            16 * 1024);
}

TEST(examples, limits_differ_by_device_and_debug_synchronizes) {
  auto const limits = example("limits").plan;
  EXPECT_EQ(std::get<size_value>(limits.find("pool", 1)->options.at("maximum_pool_size")).bytes, 10ULL << 30);
  EXPECT_EQ(std::get<size_value>(limits.find("pool", 0)->options.at("maximum_pool_size")).percent, 40);
  EXPECT_EQ(example("debug").plan.free, free_mode::synchronize);
}

}  // namespace
}  // namespace gpumem::config
