// See seeds.hpp.
#include "tests/fuzz/readers/seeds.hpp"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/report/document.hpp"
#include "core/stats/callers/call_sites.hpp"
#include "core/stats/callers/misuse.hpp"
#include "core/stats/page/categories.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::tests {
namespace {

void fill_page() {
  static constexpr std::array<stats::hook_description, 3> hooks{
      {{"cuMemAlloc_v2", "device"}, {"cuMemFree_v2", "free"}, {"cuMemCreate", "observed"}}};
  stats::open_page({hooks, "0.1.0", "run-1"});
  stats::describe_config("/a/chain.toml", "version = 1\n", 2);
  stats::category const category{"optimizer", {"*/optim/*.py", "step"}};
  stats::describe_categories(stats::packed({&category, 1}));
  stats::register_device(0, "a device", "GPU-0", 1ull << 34);
  std::size_t const pool = stats::register_node("pool", "pool", 0, 0, "device", "growth 1 MiB");
  std::size_t const tracking = stats::register_node("tracking", "tracking", 1, 0, "device", "");
  stats::open_caller_tables();
  for (int i = 0; i < 100; ++i) {
    stats::add(stats::local().hooks[0].calls, 1);
    stats::add(stats::local().hooks[0].bytes, 4096);
    stats::add(stats::local().devices[0].allocated_requested, 100);
    stats::add(stats::local().devices[0].allocated_handed, 512);
    stats::add(stats::local().nodes[pool].requests, 1);
    stats::add(stats::local().sizes[stats::bucket_of(100)].count, 1);
    auto const* const here = reinterpret_cast<char const*>(&make_page) + i;
    void const* const frames[] = {here, reinterpret_cast<void const*>(&::exit), nullptr};
    stats::count_allocation(stats::site_of(tracking, frames), 1000);
  }
  stats::gauge_add(stats::gauges(0).reserved, 1 << 19);
  for (int i = 0; i < 3; ++i) stats::sample_device(0);
  stats::free_blocks free;
  free.rows[3] = {7, 7 << 15};
  stats::note_failure({.bytes = 1 << 20, .code = 2, .free = &free, .reason = "no room"});
  stats::close_page({.kind = stats::end_kind::exit, .clean = 1});
}

}  // namespace

std::string contents(std::string const& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string all(in ? std::size_t(in.tellg()) : 0, '\0');
  in.seekg(0).read(all.data(), std::streamsize(all.size()));
  return all;
}

void write(std::string const& path, std::string const& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::string make_page(std::string const& folder) {
  pid_t const child = ::fork();
  if (child == 0) {
    ::setenv("GPUMEM_STATE_DIR", folder.c_str(), 1);
    fill_page();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(std::to_string(child))) return entry.path().string();
  }
  return {};
}

std::string json_of(std::string const& page) {
  auto const taken = stats::read_snapshot(page);
  return taken.error.empty() ? report::make_document(taken.value, {}).dump(1) : "{}";
}

std::vector<std::string> configurations() {
  std::vector<std::string> paths, texts;
  for (std::string const folder : {"/config/examples", "/tests"}) {
    for (auto const& entry : std::filesystem::recursive_directory_iterator(GPUMEM_SOURCE_FOLDER + folder)) {
      if (entry.path().extension() == ".toml" && entry.file_size() < 20'000)
        paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (auto const& path : paths) texts.push_back(contents(path));
  return texts;
}

}  // namespace gpumem::tests
